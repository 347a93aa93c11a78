package zktest_test

import (
	"os"
	"testing"

	"github.com/interlock-go/interlock/internal/zktest"
)

// A server that tests share which do nothing to it, started when it is used first.
var (
	sharedFolder string
	sharedServer *zktest.Server
)

// sharing runs the tests and ends what they have shared.
type sharing struct{ *testing.M }

func (m sharing) Run() int {
	var err error
	if sharedFolder, err = os.MkdirTemp("", "zktest-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(sharedFolder)
	defer func() {
		if sharedServer != nil {
			sharedServer.Stop()
		}
	}()
	return m.M.Run()
}

func shared(t *testing.T) *zktest.Server {
	t.Helper()
	if sharedServer == nil {
		var err error
		if sharedServer, err = zktest.Run(sharedFolder); err != nil {
			t.Fatal(err)
		}
	}
	s := sharedServer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.Log())
		}
	})
	return s
}
