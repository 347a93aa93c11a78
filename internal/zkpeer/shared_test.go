package zkpeer_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/interlock-go/interlock/internal/zkpeer"
	"github.com/interlock-go/interlock/internal/zktest"
)

// What most tests share, each with paths of its own: a server, and a peer of each library,
// which are started when they are used first.
var (
	folder        string
	startedServer *zktest.Server
	startedPeer   = map[string]*zkpeer.Peer{}
)

// sharing runs the tests and ends what they have shared.
func sharing(run func() int) int {
	var err error
	if folder, err = os.MkdirTemp("", "zkpeer-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	defer func() {
		if startedServer != nil {
			startedServer.Stop()
		}
	}()
	defer func() {
		for _, p := range startedPeer {
			p.Kill()
		}
	}()
	return run()
}

func made(name string) string {
	dir := filepath.Join(folder, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		panic(err)
	}
	return dir
}

// server is the address of the server.
func server(t *testing.T) string {
	t.Helper()
	if startedServer == nil {
		startedServer = get[*zktest.Server](t)(zktest.Run(made("server")))
	}
	s := startedServer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.Log())
		}
	})
	return s.Addr
}

func curator(t *testing.T) *zkpeer.Peer { t.Helper(); return peer(t, "curator", zkpeer.RunCurator) }
func kazoo(t *testing.T) *zkpeer.Peer   { t.Helper(); return peer(t, "kazoo", zkpeer.RunKazoo) }

func peer(t *testing.T, name string, start func(string, string, ...zkpeer.Option) (*zkpeer.Peer, error)) *zkpeer.Peer {
	t.Helper()
	p := startedPeer[name]
	if p == nil {
		p = get[*zkpeer.Peer](t)(start(made(name), server(t)))
		startedPeer[name] = p
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, p.Log())
		}
	})
	return p
}
