package filelock

import (
	"strings"
	"syscall"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/trust/trusttest"
)

// Promise: a second mount of a directory is refused, with a permanent error: its locks are others.
func TestASecondMountIsRefused(t *testing.T) {
	dir := t.TempDir()
	d, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	second, err := New(trusttest.SecondMount(t, dir))
	if err == nil {
		second.Close()
	}
	if err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "FUSE, which shows "+dir) {
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
