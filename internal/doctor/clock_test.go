package doctor_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/doctor"
)

// Promise: an exchange that takes long, in whichever direction, is not taken for a clock
// that is wrong, nor the other way round.
func TestAhead(t *testing.T) {
	const long, off = 10 * time.Second, time.Minute
	began := time.Now()
	ended := began.Add(long)
	for _, read := range []time.Time{began, ended} {
		if r := doctor.Ahead("it", read, began, ended); r.Ahead.Abs() > r.Wrong {
			t.Errorf("%+v", r)
		}
		if r := doctor.Ahead("it", read.Add(off), began, ended); r.Ahead-r.Wrong > off || r.Ahead+r.Wrong < off {
			t.Errorf("%+v, not %v", r, off)
		}
	}
}
