// Package bubble runs tests in simulated time.
package bubble

import (
	"fmt"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// Limit is the longest simulated time that a test takes. A test that waits in vain reaches
// it within a minute, since nothing else happens meanwhile.
const Limit = 30 * 24 * time.Hour

// Run is synctest.Test with a bound. A test that waits in vain is a deadlock, which
// synctest reports, only if no timer is left: heartbeats go on for ever. After Limit Run
// ends the program, with the name of the test and the stacks of all goroutines.
func Run(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.AfterFunc(Limit, func() { giveUp(t.Name()) }).Stop()
		f(t)
	})
}

// giveUp is a variable for the package's own test.
var giveUp = func(name string) {
	debug.SetTraceback("all")
	panic(fmt.Sprintf("%s still waits after %v of simulated time", name, Limit))
}
