package zktest

import (
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Ensemble is a number of servers with a leader.
type Ensemble struct{ testserver.Group[*Server] }

// peer is what a server of an ensemble has of its own.
type peer struct {
	id               int // from 1 on
	quorum, election int // ports
	lines            []string
	links            []*testserver.Proxy // to and from the others
	frozen           atomic.Bool
}

// StartEnsemble starts an ensemble of n servers, at least two, that ends with the test. The
// options are those of every server; Config("initLimit", ticks) is how long a
// server may take to follow a leader, and Config("syncLimit", ticks) how long it
// serves without having heard of its leader, 15 ticks otherwise.
func StartEnsemble(t testing.TB, n int, opts ...Option) *Ensemble {
	ca, err := testserver.NewAuthority(filepath.Join(t.TempDir(), "ca.pem"))
	e := &Ensemble{}
	for i := range n {
		s := servers.New(t.TempDir(), append([]Option{Config("initLimit", "50"), Config("syncLimit", "15")}, opts...)...)
		s.Authority, s.peer = ca, &peer{id: i + 1}
		for _, port := range []*int{&s.peer.quorum, &s.peer.election} {
			if err == nil {
				*port, err = s.Reserve()
			}
		}
		e.Servers = append(e.Servers, s)
	}
	testserver.OK(t, err)
	e.link(t)
	testserver.Start(t, e.Servers...)
	e.Leader()
	return e
}

// patience is for how long a server that has just become the leader may not
// listen yet. Its follower would try again if it were refused, but not if it
// were accepted and then left alone, and all would wait for the initLimit.
const patience = 5 * time.Second

// link makes the links between all servers: each of them knows the others
// only by addresses of proxies, which differ from server to server.
func (e *Ensemble) link(t testing.TB) {
	var elections sync.Map // address by from and to
	open := func(from, to *Server, port int, options testserver.ProxyOptions) string {
		link := testserver.NewProxy(t, testserver.Address(port), options)
		from.peer.links = append(from.peer.links, link)
		to.peer.links = append(to.peer.links, link)
		return link.Addr
	}
	for _, from := range e.Servers {
		for _, to := range e.Servers {
			quorum, election := testserver.Address(to.peer.quorum), testserver.Address(to.peer.election)
			if from != to {
				quorum = open(from, to, to.peer.quorum, testserver.ProxyOptions{Patience: patience})
				filters := func() (requests, replies testserver.Filter) {
					back, _ := elections.Load([2]*Server{to, from})
					return introduceAs(back.(string)), testserver.Pass
				}
				election = open(from, to, to.peer.election, testserver.ProxyOptions{Filters: filters})
				elections.Store([2]*Server{from, to}, election)
			}
			_, port, _ := net.SplitHostPort(election)
			from.peer.lines = append(from.peer.lines, fmt.Sprintf("server.%d=%s:%s", to.peer.id, quorum, port))
		}
	}
}

// introduceAs changes the address by which a server introduces itself at the
// election port of another, which may call back there: it has to find a proxy.
func introduceAs(addr string) testserver.Filter {
	const head = 8 + 8 + 4 // version, id, length of the address
	var opening []byte
	done := false
	return func(read []byte) testserver.Passed {
		if done {
			return testserver.Pass(read)
		}
		opening = append(opening, read...)
		if len(opening) < head {
			return testserver.Passed{}
		}
		end := head + int(binary.BigEndian.Uint32(opening[head-4:]))
		if len(opening) < end {
			return testserver.Passed{}
		}
		done = true
		b := binary.BigEndian.AppendUint32(slices.Clone(opening[:head-4]), uint32(len(addr)))
		return testserver.Pass(slices.Concat(b, []byte(addr), opening[end:]))
	}
}

// Leader waits until all servers that are alive and not frozen serve, under
// one leader, and returns it.
func (e *Ensemble) Leader() *Server {
	return e.serving()[0]
}

// Followers waits like Leader, and returns the others that serve.
func (e *Ensemble) Followers() []*Server {
	return e.serving()[1:]
}

// serving are those that are to serve, as soon as all do: the leader, and the others.
func (e *Ensemble) serving() (all []*Server) {
	e.Servers[0].Await("wait for a leader", func() (bool, error) {
		all = []*Server{nil}
		members := 0
		for _, s := range e.Servers {
			if !s.Alive() || s.peer.frozen.Load() {
				continue
			}
			members++
			switch s.mode(time.Second) {
			case "leader":
				all[0] = s
			case "follower":
				all = append(all, s)
			}
		}
		if members <= len(e.Servers)/2 {
			return false, fmt.Errorf("%d of %d servers have no leader", members, len(e.Servers))
		}
		return all[0] != nil && len(all) == members, nil
	})
	return all
}

// KillLeader ends the leader with SIGKILL and returns it.
func (e *Ensemble) KillLeader() *Server {
	leader := e.Leader()
	leader.Kill()
	return leader
}

// Freeze holds back all that passes between a server and the others. Their
// connections stay, and so do those to clients. A follower goes on to answer
// pings and reads, from what it knew, until its syncLimit is over; a leader for
// as long.
func (e *Ensemble) Freeze(s *Server) { s.peer.freeze((*testserver.Proxy).Hang, true) }

// Thaw lets pass again what Freeze holds back. The server may take some time
// to serve again, for which Leader waits.
func (e *Ensemble) Thaw(s *Server) { s.peer.freeze((*testserver.Proxy).Resume, false) }

func (p *peer) freeze(do func(*testserver.Proxy), yes bool) {
	p.frozen.Store(yes)
	for _, link := range p.links {
		do(link)
	}
}
