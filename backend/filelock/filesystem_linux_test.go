package filelock

import (
	"strings"
	"syscall"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

// Promise: a directory on a network file system is refused, with a permanent error.
func TestANetworkFileSystemIsRefused(t *testing.T) {
	defer func(old func(string, *syscall.Statfs_t) error) { statfs = old }(statfs)
	statfs = func(_ string, st *syscall.Statfs_t) error { st.Type = 0x6969; return nil }
	d, err := New(t.TempDir())
	if err == nil {
		d.Close()
	}
	if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "NFS") {
		t.Errorf("%v", err)
	}
}

// Promise: so is a directory that cannot be written.
func TestAReadOnlyFileSystemIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_RDONLY, "mode=700"); err != nil {
		t.Skip("cannot mount:", err)
	}
	defer syscall.Unmount(dir, 0)
	d, err := New(dir)
	if err == nil {
		d.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("%v", err)
	}
}
