package drivertest

import (
	"flag"
	"os"
	"runtime"
	"strconv"

	"github.com/interlock-go/interlock/drivertest/internal/process"
)

// Main runs the tests of a backend: TestMain calls it. In the copies of the test
// binary that the suites start it serves as a client in another process.
func Main(m interface{ Run() int }) {
	process.Main()
	flag.Set("rapid.nofailfile", "true") // its seed is enough to see a failure again
	moreAtATime()
	os.Exit(m.Run())
}

// moreAtATime has twice as many rules run beside each other as go test would have,
// unless it was told how many: most of the time they wait.
func moreAtATime() {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
}
