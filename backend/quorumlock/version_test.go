package quorumlock

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Promise: a fixed end that is read at another time, or from other members, which round it, is the same state. An end
// that was moved is another one, and so is a lock whose end is fixed now.
func TestTheSameEndIsTheSameState(t *testing.T) {
	state := func(read, left time.Duration, fixed bool) string {
		return version(driver.Queue{Read: driver.Instant(read), Members: []driver.Member{{ID: "a", Units: 1, Held: true, Token: 7, Left: left, Fixed: fixed}}})
	}
	first := state(time.Second, time.Minute, true)
	for _, end := range []time.Duration{-60, -1, 0, 1, 60} { // a tenth of a second ends between them
		if again := state(2*time.Second, 59*time.Second+end*time.Millisecond, true); !same(first, again) || !same(again, first) {
			t.Errorf("%s and %s are two states", first, again)
		}
	}
	for what, other := range map[string]string{
		"a later end":           state(time.Second, time.Minute+time.Second, true),
		"an earlier end":        state(time.Second, time.Minute-time.Second, true),
		"no fixed end":          state(time.Second, time.Minute, false),
		"no ticket":             version(driver.Queue{}),
		"no version":            "",
		"what is no version":    first + "x",
		"a version of a member": "m5rfgf0h4848",
	} {
		if same(first, other) || same(other, first) {
			t.Errorf("%s, %s, is the same state as %s", what, other, first)
		}
	}
}
