package redistest

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

// clock is the offset of a server's wall clock, in memory that the server
// shares through a file.
type clock struct {
	library, file string
	page          []byte
}

func newClock(dir string, offset time.Duration) (*clock, error) {
	c := &clock{library: filepath.Join(dir, "wallclock.so"), file: filepath.Join(dir, "wallclock")}
	source := filepath.Join(dir, "wallclock.c")
	if err := os.WriteFile(source, wallclock, 0o600); err != nil {
		return nil, err
	}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", c.library, source).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("a wall clock for the server needs a C compiler: cc: %w\n%s", err, out)
	}
	file, err := os.OpenFile(c.file, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
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
	c.step(offset)
	return c, nil
}

func (c *clock) step(d time.Duration) {
	(*atomic.Int64)(unsafe.Pointer(&c.page[0])).Add(int64(d))
}

func (c *clock) env() []string {
	return []string{"LD_PRELOAD=" + c.library, "REDISTEST_WALLCLOCK=" + c.file}
}
