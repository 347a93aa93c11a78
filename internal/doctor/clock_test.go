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
		if ahead, wrong := doctor.Ahead(read, began, ended); ahead.Abs() > wrong {
			t.Errorf("%v ± %v", ahead, wrong)
		}
		if ahead, wrong := doctor.Ahead(read.Add(off), began, ended); ahead-wrong > off || ahead+wrong < off {
			t.Errorf("%v ± %v, not %v", ahead, wrong, off)
		}
	}
}
