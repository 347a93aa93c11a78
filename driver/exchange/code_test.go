package exchange

import (
	"errors"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

// Promise: every code means one thing, in all databases, and one that is not known is
// never taken for success.
func TestVerdict(t *testing.T) {
	for code, want := range map[int64]error{
		0: nil, CodeBusy: driver.ErrBusy, CodeGone: driver.ErrGone, CodeMismatch: driver.ErrMismatch, CodeTokens: ErrTokens,
		CodeNotHeld: ErrNotHeld, CodeSession: driver.ErrSession, CodeMore: ErrMore,
	} {
		if got := Verdict(code); !errors.Is(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%d: got %v, want %v", code, got, want)
		}
	}
	for _, code := range []int64{1, 2, -8, -100, 1 << 40} {
		if err := Verdict(code); err == nil || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "another one") {
			t.Errorf("%d: got %v, want that it is not known", code, err)
		}
	}
}
