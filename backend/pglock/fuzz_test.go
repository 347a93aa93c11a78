package pglock

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver/exchange"
)

// Promise: whatever is sent on a channel, it is read without harm; what is no message of ours is
// none, and no ticket's ID has another form than ours.
func FuzzEvent(f *testing.F) {
	const id = "01234567-89ab-cdef-0123-456789abcdef"
	for _, line := range []string{
		"", " ", "g", "q a/b", "c ", "g " + id + " 7 iw", "g " + id + " 0 -", "g " + id + " 18446744073709551615 -", "g " + id + " -1 f", "g " + id + " 7", "f " + id + " 9223372036854775807",
		"f " + id + " -9223372036854775808", "w " + id, "r " + id + " x y", "e -", "x \t\n", "z " + id, "\x00 \xff", "g\u00a0" + id + " 1 i",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, ok := event(line)
		if !ok {
			return
		}
		switch e.Type {
		case exchange.QueueChanged, exchange.CellChanged:
			if e.ID != "" {
				t.Errorf("%q is of a ticket: %+v", line, e)
			}
		case exchange.Granted, exchange.FirstWaiter, exchange.Demanded, exchange.Removed:
			if strings.ContainsAny(e.ID, "- ") {
				t.Errorf("%q is of the ticket %q", line, e.ID)
			}
		default:
			t.Errorf("%q is %+v", line, e)
		}
	})
}
