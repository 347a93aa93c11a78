package zktest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Ensemble is a number of servers with a leader.
type Ensemble struct {
	Servers []*Server

	links []*testserver.Proxy
}

// StartEnsemble starts an ensemble of n servers that ends with the test. The
// options are those of every server; Config("initLimit", ticks) is how long a
// server may take to follow a leader, and Config("syncLimit", ticks) how long it
// serves without having heard of its leader, 15 ticks otherwise.
func StartEnsemble(t testing.TB, n int, opts ...Option) *Ensemble {
	t.Helper()
	e, err := RunEnsemble(t.TempDir(), n, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	for _, s := range e.Servers {
		s.BelongTo(t)
	}
	return e
}

// RunEnsemble starts an ensemble with its data in dir. The caller has to Stop it.
func RunEnsemble(dir string, n int, opts ...Option) (*Ensemble, error) {
	if n < 2 {
		return nil, fmt.Errorf("an ensemble of %d servers: want at least 2", n)
	}
	if err := installed(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	e := &Ensemble{}
	if err := e.start(dir, n, opts); err != nil {
		e.Stop()
		return nil, err
	}
	return e, nil
}

func (e *Ensemble) start(dir string, n int, opts []Option) error {
	trust, err := oneAuthority(dir, opts)
	if err != nil {
		return err
	}
	opts = slices.Concat([]Option{Config("initLimit", "50"), Config("syncLimit", "15")}, opts, []Option{trust})
	for i := range n {
		s := newServer(filepath.Join(dir, fmt.Sprint("server", i+1)), opts)
		if err := os.Mkdir(s.Dir, 0o700); err != nil {
			return err
		}
		e.Servers = append(e.Servers, s)
		s.peer = &peer{id: i + 1}
		if s.peer.quorum, err = s.Reserve(); err != nil {
			return err
		}
		if s.peer.election, err = s.Reserve(); err != nil {
			return err
		}
	}
	if e.links, err = linkAll(e.Servers); err != nil {
		return err
	}
	for _, s := range e.Servers {
		if err := s.Prepare(); err != nil {
			return err
		}
	}
	if err := testserver.Each(e.Servers, func(s *Server) error { return s.Launch() }); err != nil {
		return err
	}
	_, err = e.leader()
	return err
}

// oneAuthority lets a client trust all servers with TLS.
func oneAuthority(dir string, opts []Option) (Option, error) {
	if !newServer(dir, opts).set.tls {
		return func(*settings) {}, nil
	}
	ca, err := newAuthority(dir)
	return func(s *settings) { s.ca = ca }, err
}

// Stop ends all servers.
func (e *Ensemble) Stop() {
	for _, s := range e.Servers {
		s.Stop()
	}
	for _, link := range e.links {
		link.Close()
	}
}

// Addrs are the addresses of all servers.
func (e *Ensemble) Addrs() []string {
	var list []string
	for _, s := range e.Servers {
		list = append(list, s.Addr)
	}
	return list
}

// Leader waits until all servers that are alive and not frozen serve, under
// one leader, and returns it.
func (e *Ensemble) Leader() *Server {
	e.Servers[0].Helper()
	leader, err := e.leader()
	e.Servers[0].Check("wait for a leader", err)
	return leader
}

// Followers waits like Leader, and returns the others that serve.
func (e *Ensemble) Followers() []*Server {
	e.Servers[0].Helper()
	leader := e.Leader()
	var list []*Server
	for _, s := range e.members() {
		if s != leader {
			list = append(list, s)
		}
	}
	return list
}

// members are those who are to serve.
func (e *Ensemble) members() []*Server {
	var list []*Server
	for _, s := range e.Servers {
		if s.Alive() && !s.peer.frozen.Load() {
			list = append(list, s)
		}
	}
	return list
}

func (e *Ensemble) leader() (*Server, error) {
	members := e.members()
	if len(members) <= len(e.Servers)/2 {
		return nil, fmt.Errorf("%d of %d servers have no leader", len(members), len(e.Servers))
	}
	var leader *Server
	err := testserver.Until(func() (bool, error) {
		leader = nil
		for _, s := range members {
			switch mode := s.mode(); {
			case mode == "leader" && leader == nil:
				leader = s
			case mode != "follower":
				return false, nil
			}
		}
		return leader != nil, nil
	})
	if err != nil {
		for _, s := range e.Servers {
			err = fmt.Errorf("%w\nlog of the server on %s:\n%s", err, s.Addr, s.Log())
		}
	}
	return leader, err
}

// mode is leader or follower; nothing if the server does not serve now.
func (s *Server) mode() string {
	answer, _ := s.askWithin(time.Second, "srvr")
	_, mode, _ := strings.Cut(answer, "\nMode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}

// KillLeader ends the leader with SIGKILL and returns it.
func (e *Ensemble) KillLeader() *Server {
	e.Servers[0].Helper()
	leader := e.Leader()
	leader.Kill()
	return leader
}

// Restart starts servers again, all at once, with their data, and waits until
// they serve. Those that still run end in good order before.
func (e *Ensemble) Restart(servers ...*Server) {
	e.Servers[0].Helper()
	again := func(s *Server) error { return s.Again(nil) }
	e.Servers[0].Check("restart", testserver.Each(servers, again))
}

// Freeze holds back all that passes between a server and the others. Their
// connections stay, and so do those to clients. A follower goes on to answer
// pings and reads, from what it knew, until its syncLimit is over; a leader for
// as long.
func (e *Ensemble) Freeze(s *Server) { s.peer.freeze(true) }

// Thaw lets pass again what Freeze holds back. The server may take some time
// to serve again, for which Leader waits.
func (e *Ensemble) Thaw(s *Server) { s.peer.freeze(false) }
