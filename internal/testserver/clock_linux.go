package testserver

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
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

// preloaded is the library that a server with a clock is started with. It is this package's own, for libfaketime
// and the allocator of Redis call each other without end.
var preloaded = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "wallclock")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, library := filepath.Join(dir, "wallclock.c"), filepath.Join(dir, "wallclock.so")
	if err := os.WriteFile(source, wallclock, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("a wall clock for the server needs a C compiler: cc: %w\n%s", err, out)
	}
	return os.ReadFile(library)
})

// newClock makes a clock in dir.
func newClock(dir string) (*clock, error) {
	c := &clock{library: filepath.Join(dir, "wallclock.so"), file: filepath.Join(dir, "wallclock")}
	text, err := preloaded()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.library, text, 0o755); err != nil {
		return nil, err
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
	return c, os.NewSyscallError("mmap", err)
}

func (c *clock) step(d time.Duration) { (*atomic.Int64)(unsafe.Pointer(&c.page[0])).Add(int64(d)) }

func (c *clock) env() []string {
	return []string{"LD_PRELOAD=" + c.library, "TESTSERVER_WALLCLOCK=" + c.file}
}
