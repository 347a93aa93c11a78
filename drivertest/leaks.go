package drivertest

import (
	"testing"

	"go.uber.org/goleak"
)

// noLeaks fails the test if more goroutines run at its end than do now.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(before); err != nil {
			t.Errorf("goroutines are left after every driver was closed: %v\nbroken promise of package driver:\n\t“%s”", err, closeFrees)
		}
	})
}
