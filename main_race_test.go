//go:build race

package interlock_test

import (
	"os"
	"runtime"
	"testing"
)

// The race detector crashes when two goroutines of one synctest bubble run timers
// at the same moment (golang/go#78156), which takes two processors.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
