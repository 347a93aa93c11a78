package redistest

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// Sentinels are a master and its replica, watched by three sentinels. Two of
// them have to agree.
type Sentinels struct {
	Name      string    // what the sentinels call the master
	Nodes     []*Server // the first master, and its replica
	Proxies   []*Proxy  // of the Nodes, if they are Proxied
	Sentinels []*Server

	patience string // for how many milliseconds a master may be silent
}

// Proxied has the sentinels, the master, its replica and their clients reach these two through proxies.
func Proxied() Option { return func(s *settings) { s.proxied = true } }

// StartSentinel starts them; they end with the test. The options are those of
// the master and the replica, without TLS. A master that is dead is replaced when WaitFailover waits
// for it; a pause is not taken for a death.
func StartSentinel(t testing.TB, opts ...Option) *Sentinels {
	t.Helper()
	s := &Sentinels{Name: "mymaster", patience: "60000", Nodes: startAll(t, 2, opts...)}
	for _, server := range s.Nodes {
		if server.set.proxied { // which name their proxies as their addresses
			p := NewProxy(t, server.Addr)
			s.Proxies = append(s.Proxies, p)
			host, port, _ := net.SplitHostPort(p.Addr)
			server.must("CONFIG", "SET", "replica-announce-ip", host, "replica-announce-port", port)
		}
	}
	_, port, _ := net.SplitHostPort(s.addr(0))
	s.Nodes[1].must("REPLICAOF", "127.0.0.1", port)
	for _, server := range s.Nodes {
		server.must("CONFIG", "REWRITE") // it is still so after a Restart
	}
	s.Sentinels = startAll(t, 3, func(set *settings) { set.sentinel = true },
		Config("sentinel", "monitor", s.Name, "127.0.0.1", port, "2"),
		Config("sentinel", "down-after-milliseconds", s.Name, s.patience),
		Config("sentinel", "failover-timeout", s.Name, "2000"),
		Config("sentinel", "auth-user", s.Name, admin),
		Config("sentinel", "auth-pass", s.Name, adminPassword),
		Config("sentinel", "announce-ip", "127.0.0.1"))
	for _, server := range s.Sentinels {
		// By default they tell each other every two, and ask the servers every ten
		// seconds. The time between pings has to stay: five times that long they
		// believe what a replica has said, which they ask every second in a failover.
		server.must("SENTINEL", "DEBUG", "INFO-PERIOD", "100", "PUBLISH-PERIOD", "100")
	}
	for _, server := range s.Sentinels {
		server.until("know all others", func() bool { return s.complete(server) })
	}
	return s
}

// addr is where others reach a server.
func (s *Sentinels) addr(i int) string {
	if len(s.Proxies) > 0 {
		return s.Proxies[i].Addr
	}
	return s.Nodes[i].Addr
}

// complete says whether a sentinel knows the others, and a replica that is in sync.
func (s *Sentinels) complete(sentinel *Server) bool {
	replicas, _ := sentinel.Do("SENTINEL", "REPLICAS", s.Name)
	master, _ := sentinel.Do("SENTINEL", "MASTER", s.Name)
	_, err := sentinel.Do("SENTINEL", "CKQUORUM", s.Name)
	text := fmt.Sprint(replicas)
	return err == nil && strings.Count(text, "master-link-status") == 1 &&
		strings.Contains(text, " master-link-status ok ") && strings.Contains(fmt.Sprint(master), " num-other-sentinels 2 ")
}

// SentinelAddrs are the addresses of the sentinels.
func (s *Sentinels) SentinelAddrs() []string { return addrs(s.Sentinels) }

// Master is the server that a sentinel calls the master now.
func (s *Sentinels) Master() *Server {
	for _, sentinel := range s.Sentinels {
		if master := s.masterOf(sentinel); master != nil {
			return master
		}
	}
	s.Nodes[0].Helper()
	s.Nodes[0].Check("find the master", fmt.Errorf("no sentinel knows it"))
	return nil
}

func (s *Sentinels) masterOf(sentinel *Server) *Server {
	answer, _ := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name)
	for i, server := range s.Nodes {
		if host, port, _ := net.SplitHostPort(s.addr(i)); fmt.Sprint(answer) == fmt.Sprintf("[%s %s]", host, port) {
			return server
		}
	}
	return nil
}

// Replica is the server that is not the master.
func (s *Sentinels) Replica() *Server {
	s.Nodes[0].Helper()
	if s.Master() == s.Nodes[0] {
		return s.Nodes[1]
	}
	return s.Nodes[0]
}

// BeHasty has the sentinels replace a master that has not answered for a second, from now on. On a busy machine
// a healthy one is so, too, at times.
func (s *Sentinels) BeHasty() {
	s.patience = "1000"
	s.wait(s.patience)
}

// wait says how many milliseconds a master may be silent.
func (s *Sentinels) wait(ms string) {
	for _, sentinel := range s.Sentinels {
		_, _ = sentinel.Do("SENTINEL", "SET", s.Name, "down-after-milliseconds", ms) // one may be dead
	}
}

// agreed is the master that all sentinels which answer agree on.
func (s *Sentinels) agreed() (master *Server) {
	for _, sentinel := range s.Sentinels {
		if _, err := sentinel.Do("PING"); err != nil {
			continue
		}
		m := s.masterOf(sentinel)
		if m == nil || master != nil && m != master {
			return nil
		}
		master = m
	}
	return master
}

// Whole reports whether all sentinels agree on the master, and its replica has all that it has.
func (s *Sentinels) Whole() bool {
	master := s.agreed()
	for _, sentinel := range s.Sentinels {
		if !s.complete(sentinel) {
			return false
		}
	}
	return master != nil && master.says("role:master", "INFO", "replication") &&
		master.says("connected_slaves:1", "INFO", "replication") && s.Replica().inSync()
}

// WaitFailover has the sentinels give up a master that does not answer for a second. It
// waits until all sentinels that answer call another server than old the master, and it
// takes writes, and returns it. Afterwards they are as patient as before.
func (s *Sentinels) WaitFailover(old *Server) (master *Server) {
	old.Helper()
	s.wait("1000")
	defer s.wait(s.patience)
	old.until("be replaced as the master", func() bool {
		master = s.agreed()
		return master != nil && master != old && master.says("role:master", "INFO", "replication")
	})
	return master
}
