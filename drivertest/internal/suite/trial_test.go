package suite

import (
	"testing"
	"time"
)

// Promise: an attempt that tells nothing is made again, and after a rule that does not fail its suite has the last
// word.
func TestTry(t *testing.T) {
	checks, ends := 0, 0
	r := Rule[*Trial]{Name: "slow at first", Check: func(f *Trial) {
		if checks++; checks < 3 {
			f.Slow("this machine is slow")
		}
	}}
	r.Try(t, 3, func(int) (*Trial, *Trial) {
		f := r.Begin(t, "suite", false, time.Minute)
		f.AtEnd = func() { ends++ }
		return f, f
	})
	if checks != 3 || ends != 1 {
		t.Errorf("the rule was checked %d times, and its suite had the last word %d times; want 3 and 1", checks, ends)
	}
}
