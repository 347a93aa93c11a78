package fence

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Promise: the work does not begin before its token is on the disk.
func TestTheWorkWaitsUntilItsTokenIsOnTheDisk(t *testing.T) {
	broken := errors.New("the disk is broken")
	defer func(old func(*os.File) error) { synced = old }(synced)
	synced = func(*os.File) error { return broken }
	err := NewFile(filepath.Join(t.TempDir(), "token")).Do(t.Context(), Token(1), func() error {
		t.Error("the work has begun")
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the disk", err)
	}
}
