package busy

import (
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// Until waits for a condition. If it gives up, it shows where all goroutines stand: one may hang.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); ; {
		looked := time.Now()
		if ok() {
			return
		}
		// A look is a process of its own, most often: the processors are for what it waits for.
		time.Sleep(2*time.Millisecond + 2*time.Since(looked))
		if time.Since(began) > Bound(2*time.Minute) {
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			t.Logf("goroutines:\n%s", &stacks)
			t.Fatalf("it is not so that %s", what)
		}
	}
}
