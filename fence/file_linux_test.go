package fence_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/interlock-go/interlock/fence"
)

// Promise: the work does not begin before its token is on the disk.
func TestTheWorkWaitsUntilItsTokenIsOnTheDisk(t *testing.T) {
	f := fence.NewFile(os.DevNull) // takes what is written, and refuses to be synchronised
	err := f.Do(t.Context(), fence.Token(1), func() error {
		t.Error("the work has begun")
		return nil
	})
	if !errors.Is(err, syscall.EINVAL) {
		t.Errorf("got %v, want the error of the disk", err)
	}
}
