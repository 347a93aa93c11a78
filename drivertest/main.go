package drivertest

import (
	"os"
	"testing"
)

// Main runs the tests of a backend: TestMain calls it. In the copies of the test
// binary that the suite starts it serves as a client in another process.
func Main(m *testing.M) {
	os.Exit(m.Run())
}
