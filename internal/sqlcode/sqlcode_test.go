package sqlcode

import (
	"errors"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Promise: every code means one thing, in all databases, and an unknown one is never taken for
// success.
func TestErr(t *testing.T) {
	for code, want := range map[int64]error{
		0: nil, Busy: driver.ErrBusy, Gone: driver.ErrGone, Mismatch: driver.ErrMismatch, Tokens: exchange.ErrTokens,
		NotHeld: exchange.ErrNotHeld, Session: driver.ErrSession, More: ErrMore,
	} {
		if got := Err(code); !errors.Is(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%d: got %v, want %v", code, got, want)
		}
	}
	for _, code := range []int64{1, 2, -8, -100, 1 << 40} {
		if err := Err(code); err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "another one") {
			t.Errorf("%d: got %v, want that it is not known", code, err)
		}
	}
}
