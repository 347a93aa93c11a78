package drivertest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakLimit is for goroutines that end by themselves: clients of servers let go of
// old connections a few seconds after they have replaced them.
const leakLimit = 15 * time.Second

// leaked reports the goroutines that go on running within so much time, but for those that did before.
func leaked(before goleak.Option, within time.Duration) error {
	err := goleak.Find(before)
	for began := time.Now(); err != nil && time.Since(began) < within; err = goleak.Find(before) {
		time.Sleep(time.Second / 2) // Find has looked for as long
	}
	return err
}

// noLeaks fails the test if more goroutines run some time after its end than do now.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := leaked(before, leakLimit); err != nil {
			t.Errorf("goroutines are left after every driver was closed: %v\nbroken promise of package driver:\n\t“%s”", err, closeFrees)
		}
	})
}
