// Package trusttest makes places for tests that are not to be used.
package trusttest

import (
	"os"
	"os/exec"
	"testing"
)

// FileMount mounts a file on another one, until the test has ended. It skips the test where that is not possible.
func FileMount(t *testing.T, file, on string) {
	t.Helper()
	if out, err := exec.Command("mount", "--bind", file, on).CombinedOutput(); err != nil {
		t.Skipf("mount: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", on).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// SecondMount mounts a folder in a second place, until the test has ended. It skips the test where that is
// not possible.
func SecondMount(t *testing.T, folder string) (mount string) {
	t.Helper()
	mount, err := os.MkdirTemp("", "mount")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(mount) })
	if out, err := exec.Command("bindfs", folder, mount).CombinedOutput(); err != nil {
		t.Skipf("bindfs: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("fusermount", "-u", mount).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return mount
}
