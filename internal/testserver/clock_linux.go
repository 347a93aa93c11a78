package testserver

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

//go:embed wallclock/wallclock.c
var wallclock []byte

// Clock is the offset of a server's wall clock, in memory that the server
// shares through a file. Its steady clock stays true. It needs a C compiler.
//
// This package has a preloaded library of its own for it: libfaketime and the
// allocator of Redis call each other without end.
type Clock struct {
	library, file string
	page          []byte
}

// NewClock makes a clock in dir. Any server may read it there.
func NewClock(dir string, offset time.Duration) (*Clock, error) {
	c := &Clock{library: filepath.Join(dir, "wallclock.so"), file: filepath.Join(dir, "wallclock")}
	source := filepath.Join(dir, "wallclock.c")
	if err := os.WriteFile(source, wallclock, 0o600); err != nil {
		return nil, err
	}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", c.library, source).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("a wall clock for the server needs a C compiler: cc: %w\n%s", err, out)
	}
	file, err := os.OpenFile(c.file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.Truncate(8); err != nil {
		return nil, err
	}
	c.page, err = syscall.Mmap(int(file.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	c.Step(offset)
	return c, nil
}

// Step adds d to the wall clock.
func (c *Clock) Step(d time.Duration) {
	(*atomic.Int64)(unsafe.Pointer(&c.page[0])).Add(int64(d))
}

// Env is what a server with this clock has in its environment.
func (c *Clock) Env() []string {
	return []string{"LD_PRELOAD=" + c.library, "TESTSERVER_WALLCLOCK=" + c.file}
}
