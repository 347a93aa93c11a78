package redistest

import (
	"fmt"
	"net"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
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
// the master and the replica. A master that is dead is replaced when WaitFailover waits
// for it; nobody takes a pause for a death.
func StartSentinel(t testing.TB, opts ...Option) *Sentinels {
	t.Helper()
	s, err := RunSentinel(t.TempDir(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range append(s.Nodes, s.Sentinels...) {
		server.BelongTo(t)
	}
	for _, p := range s.Proxies {
		t.Cleanup(p.Close)
	}
	return s
}

// RunSentinel starts them with their data in dir. The caller has to Stop them.
func RunSentinel(dir string, opts ...Option) (*Sentinels, error) {
	s := &Sentinels{Name: "mymaster", patience: "60000"}
	if err := s.start(dir, opts); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Sentinels) start(dir string, opts []Option) error {
	trust, err := oneAuthority(dir, opts)
	if err != nil {
		return err
	}
	opts = append(opts[:len(opts):len(opts)], trust)
	if s.Nodes, err = runAll(dir, "redis", 2, func(int) []Option { return opts }); err != nil {
		return err
	}
	master, replica := s.Nodes[0], s.Nodes[1]
	if err := s.announce(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.addr(0))
	if _, err := replica.Do("REPLICAOF", "127.0.0.1", port); err != nil {
		return err
	}
	if _, err := replica.Do("CONFIG", "REWRITE"); err != nil { // it is still one after a Restart
		return err
	}
	watch := []Option{
		func(set *settings) { set.sentinel, set.tls = true, master.set.tls },
		Config("sentinel", "monitor", s.Name, "127.0.0.1", port, "2"),
		Config("sentinel", "down-after-milliseconds", s.Name, s.patience),
		Config("sentinel", "failover-timeout", s.Name, "2000"),
		Config("sentinel", "auth-user", s.Name, admin),
		Config("sentinel", "auth-pass", s.Name, adminPassword),
		Config("sentinel", "announce-ip", "127.0.0.1"),
		trust,
	}
	if s.Sentinels, err = runAll(dir, "sentinel", 3, func(int) []Option { return watch }); err != nil {
		return err
	}
	for _, server := range s.Sentinels {
		// By default they tell each other every two, and ask the servers every ten
		// seconds. The time between pings has to stay: five times that long they
		// believe what a replica has said, which they ask every second in a failover.
		if _, err := server.Do("SENTINEL", "DEBUG", "INFO-PERIOD", "100", "PUBLISH-PERIOD", "100"); err != nil {
			return err
		}
	}
	for _, server := range s.Sentinels {
		if err := testserver.Until(func() (bool, error) { return s.complete(server), nil }); err != nil {
			return fmt.Errorf("the sentinel on %s does not know all others: %w\n%s", server.Addr, err, server.Log())
		}
	}
	return nil
}

// announce has the servers name their proxies as their addresses, if they have any.
func (s *Sentinels) announce() error {
	for i, server := range s.Nodes {
		if !server.set.proxied {
			continue
		}
		p, err := RunProxy(server.Addr)
		if err != nil {
			return err
		}
		s.Proxies = append(s.Proxies, p)
		host, port, _ := net.SplitHostPort(s.addr(i))
		if _, err := server.Do("CONFIG", "SET", "replica-announce-ip", host, "replica-announce-port", port); err != nil {
			return err
		}
		if _, err := server.Do("CONFIG", "REWRITE"); err != nil {
			return err
		}
	}
	return nil
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
	replicas, err := sentinel.Do("SENTINEL", "REPLICAS", s.Name)
	if list, ok := replicas.([]any); err != nil || !ok || len(list) != 1 || pairs(list[0])["master-link-status"] != "ok" {
		return false
	}
	master, err := sentinel.Do("SENTINEL", "MASTER", s.Name)
	if err != nil || pairs(master)["num-other-sentinels"] != "2" {
		return false
	}
	_, err = sentinel.Do("SENTINEL", "CKQUORUM", s.Name)
	return err == nil
}

func pairs(answer any) map[string]string {
	m := map[string]string{}
	if list, ok := answer.([]any); ok {
		for i := 0; i+1 < len(list); i += 2 {
			m[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
		}
	}
	return m
}

// Stop ends all of them.
func (s *Sentinels) Stop() {
	for _, p := range s.Proxies {
		p.Close()
	}
	stopAll(s.Sentinels)
	stopAll(s.Nodes)
}

// SentinelAddrs are the addresses of the sentinels.
func (s *Sentinels) SentinelAddrs() []string { return addrs(s.Sentinels) }

// Master is the server that a sentinel calls the master now.
func (s *Sentinels) Master() *Server {
	s.Nodes[0].Helper()
	for _, sentinel := range s.Sentinels {
		if master := s.masterOf(sentinel); master != nil {
			return master
		}
	}
	s.Nodes[0].Fail("no sentinel knows the master")
	return nil
}

func (s *Sentinels) masterOf(sentinel *Server) *Server {
	answer, err := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name)
	at, ok := answer.([]any)
	if err != nil || !ok || len(at) != 2 {
		return nil
	}
	addr := net.JoinHostPort(fmt.Sprint(at[0]), fmt.Sprint(at[1]))
	for i, server := range s.Nodes {
		if s.addr(i) == addr {
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

// Whole reports whether all sentinels agree on the master, and its replica has all that it has.
func (s *Sentinels) Whole() bool {
	var master *Server
	for _, sentinel := range s.Sentinels {
		m := s.masterOf(sentinel)
		if m == nil || master != nil && m != master || !s.complete(sentinel) {
			return false
		}
		master = m
	}
	for _, server := range s.Nodes {
		if server == master && !server.says([]string{"INFO", "replication"}, "role:master", "connected_slaves:1") ||
			server != master && !server.inSync() {
			return false
		}
	}
	return true
}

// WaitFailover has the sentinels give up a master that does not answer for a second. It
// waits until all sentinels that answer call another server than old the master, and it
// takes writes, and returns it. Afterwards they are as patient as before.
func (s *Sentinels) WaitFailover(old *Server) *Server {
	s.Nodes[0].Helper()
	s.wait("1000")
	defer s.wait(s.patience)
	var master *Server
	err := testserver.Until(func() (bool, error) {
		master = nil
		for _, sentinel := range s.Sentinels {
			if _, err := sentinel.Do("PING"); err != nil {
				continue
			}
			m := s.masterOf(sentinel)
			if m == nil || m == old || master != nil && master != m {
				return false, nil
			}
			master = m
		}
		return master != nil && master.says([]string{"INFO", "replication"}, "role:master"), nil
	})
	if err != nil {
		old.Fail("it is still the master: %v", err)
	}
	return master
}
