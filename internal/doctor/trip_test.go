package doctor_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// Promise: a server that is far away is warned of.
func TestTrip(t *testing.T) {
	for took, want := range map[time.Duration]driver.Status{time.Millisecond: driver.OK, doctor.SlowTrip + 1: driver.Warn} {
		if f := doctor.Trip(took); f.Status != want || f.Detail == "" {
			t.Errorf("%v: %+v", took, f)
		}
	}
}
