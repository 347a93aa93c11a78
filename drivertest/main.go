package drivertest

import (
	"flag"
	"io"
	"net/rpc"
	"os"
	"testing"
)

// asClient is set in the environment of the copies of the test binary that
// serve as clients in processes of their own.
const asClient = "INTERLOCK_DRIVERTEST_CLIENT"

// Main runs the tests of a backend: TestMain calls it. In the copies of the test
// binary that the suite starts it serves as a client in another process.
func Main(m *testing.M) {
	if os.Getenv(asClient) == "" {
		flag.Set("rapid.nofailfile", "true") // its seed is enough to see a failure again
		os.Exit(m.Run())
	}
	server := rpc.NewServer()
	if err := server.RegisterName("Client", newRemoteClient()); err != nil {
		panic(err)
	}
	server.ServeConn(stdio{os.Stdin, os.Stdout}) // until the suite hangs up
	os.Exit(0)
}

type stdio struct {
	io.Reader
	io.WriteCloser
}
