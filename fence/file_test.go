package fence

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/flock"
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

// Promise: a larger token that is seen at any time before the work begins refuses it, and a smaller one does not.
func TestATokenThatIsSeenBeforeTheWorkBegins(t *testing.T) {
	defer func(old func(*os.File) (bool, error)) { share = old }(share)
	for other, want := range map[Token]error{1: nil, 3: ErrStale} {
		file := NewFile(filepath.Join(t.TempDir(), "token"))
		for _, passes := range []bool{true, false} { // the other one is gone, or is still there
			left := 1
			original := share
			share = func(f *os.File) (bool, error) {
				if left--; left < 0 {
					return original(f)
				}
				errtest.None(t, flock.Unlock(f))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				share = original
				if err := file.Check(ctx, other); err != nil && !errors.Is(err, ErrStale) {
					t.Error(err)
				}
				if !passes {
					return false, nil
				}
				return original(f)
			}
			err := file.Check(t.Context(), Token(2))
			share = original
			if !errors.Is(err, want) {
				t.Errorf("beside the token %d: %v, not %v", other, err, want)
			}
		}
	}
}
