package drivertest

import (
	"flag"
	"io"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/interlock-go/interlock/drivertest/internal/remote"
)

// asClient is set in the environment of the copies of the test binary that
// serve as clients in processes of their own.
const asClient = "INTERLOCK_DRIVERTEST_CLIENT"

// Main runs the tests of a backend: TestMain calls it. In the copies of the test
// binary that the suite starts it serves as a client in another process.
func Main(m *testing.M) {
	if os.Getenv(asClient) == "" {
		flag.Set("rapid.nofailfile", "true") // its seed is enough to see a failure again
		moreAtATime()
		os.Exit(m.Run())
	}
	remote.Serve(stdio{os.Stdin, os.Stdout}, nil, works)
	os.Exit(0)
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

// stdio is a connection over two pipes.
type stdio struct {
	io.Reader
	io.WriteCloser
}
