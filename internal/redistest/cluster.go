package redistest

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Cluster is a Redis cluster.
type Cluster struct {
	Nodes []*Server // the masters, in the order of their slots, then their replicas
}

// Replicas gives every master of a cluster so many replicas.
func Replicas(n int) Option { return func(s *Server) { s.replicas = n } }

// startAll starts n servers that trust each other and end with the test.
func startAll(t testing.TB, n int, opts ...Option) []*Server {
	ca, err := testserver.NewAuthority(filepath.Join(t.TempDir(), "ca.pem"))
	testserver.OK(t, err)
	var all []*Server
	for range n {
		s := servers.New(t.TempDir(), opts...)
		s.Authority = ca
		all = append(all, s)
	}
	testserver.Start(t, all...)
	return all
}

// StartCluster starts a cluster of at least three masters that ends with the test. The options are those
// of every node; Config("cluster-node-timeout", milliseconds) says how fast a
// dead node is noticed: without it after a minute, so that a pause is not taken for a
// death. A cluster takes more than two seconds to start, since
// its masters refuse to serve earlier.
func StartCluster(t testing.TB, masters int, opts ...Option) *Cluster {
	replicas := servers.New("", opts...).replicas
	opts = append([]Option{func(s *Server) { s.cluster = true }}, opts...)
	c := &Cluster{startAll(t, masters*(1+replicas), opts...)}
	first := c.Nodes[0]
	args := []string{"--user", admin, "--pass", adminPassword, "--no-auth-warning"}
	if first.Secure {
		args = append(args, "--tls", "--cacert", first.CA, "--cert", first.ClientCert, "--key", first.ClientKey)
	}
	args = append(args, "--cluster-yes", "--cluster-replicas", strconv.Itoa(replicas), "--cluster", "create")
	for _, s := range c.Nodes {
		args = append(args, fmt.Sprintf("%s@%d", s.Addr, s.busPort))
	}
	_, err := testserver.Output(exec.Command("redis-cli", args...))
	testserver.OK(t, err)
	for i, s := range c.Nodes {
		s.until("serve in the cluster", func() bool {
			return s.says("cluster_state:ok", "CLUSTER", "INFO") && (i < masters || s.inSync())
		})
	}
	// They choose their masters themselves.
	slices.SortStableFunc(c.Nodes[masters:], func(a, b *Server) int { return c.masterOf(a) - c.masterOf(b) })
	return c
}

// masterOf is the index of the master of a replica.
func (c *Cluster) masterOf(replica *Server) int {
	return slices.IndexFunc(c.Nodes, func(s *Server) bool {
		return replica.says(fmt.Sprintf("master_port:%d", s.Port), "INFO", "replication")
	})
}

func (s *Server) until(what string, ok func() bool) {
	s.Await(what, func() (bool, error) { return ok(), nil })
}

// inSync says whether a replica has all that its master had when it was asked
// to follow it.
func (s *Server) inSync() bool { return s.says("master_link_status:up", "INFO", "replication") }

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

func addrs(servers []*Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.Addr)
	}
	return all
}

// Owner is the master that serves a key.
func (c *Cluster) Owner(key string) *Server {
	serves := func(s *Server) bool { return s.says("cluster_state:ok", "CLUSTER", "INFO") }
	asked := c.Nodes[max(0, slices.IndexFunc(c.Nodes, serves))]
	port := asked.owner(asked.must("CLUSTER", "KEYSLOT", key).(int64))
	i := slices.IndexFunc(c.Nodes, func(s *Server) bool { return s.Port == port })
	if i < 0 {
		asked.Check("find the owner of "+key, fmt.Errorf("it belongs to none"))
	}
	return c.Nodes[i]
}

// owner is the port of the master that serves a slot, as this node sees it; 0
// if it knows none.
func (s *Server) owner(slot int64) int {
	for _, entry := range s.must("CLUSTER", "SLOTS").([]any) {
		r := entry.([]any) // first and last slot, master, replicas
		if r[0].(int64) <= slot && slot <= r[1].(int64) {
			return int(r[2].([]any)[1].(int64))
		}
	}
	return 0
}

// Move moves the slot of a key, with all its keys, to another master, and
// returns when all nodes know. A client that has asked the cluster before is
// redirected.
func (c *Cluster) Move(key string, to *Server) {
	from := c.Owner(key)
	if from == to {
		return
	}
	n := to.must("CLUSTER", "KEYSLOT", key).(int64)
	slot := strconv.FormatInt(n, 10)
	fromID, toID := from.must("CLUSTER", "MYID").(string), to.must("CLUSTER", "MYID").(string)
	to.must("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.must("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	for _, key := range from.must("CLUSTER", "GETKEYSINSLOT", slot, "1000000").([]any) {
		from.must("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), key.(string), "0", "5000", "AUTH2", admin, adminPassword)
	}
	to.must("CLUSTER", "SETSLOT", slot, "NODE", toID)
	from.must("CLUSTER", "SETSLOT", slot, "NODE", toID)
	for _, s := range c.Nodes { // as redis-cli does; what replicas refuse they hear from their masters
		_, _ = s.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	for _, s := range c.Nodes {
		s.until("hear that slot "+slot+" has moved", func() bool { return s.owner(n) == to.Port })
	}
}

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
func Proxied() Option { return func(s *Server) { s.proxied = true } }

// StartSentinel starts them; they end with the test. The options are those of
// the master and the replica, without TLS. A master that is dead is replaced when WaitFailover waits
// for it; a pause is not taken for a death.
func StartSentinel(t testing.TB, opts ...Option) *Sentinels {
	s := &Sentinels{Name: "mymaster", patience: "60000", Nodes: startAll(t, 2, opts...)}
	for _, server := range s.Nodes {
		if server.proxied { // which name their proxies as their addresses
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
	s.Sentinels = startAll(t, 3, func(s *Server) { s.sentinel = true },
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
	s.wait("1000")
	defer s.wait(s.patience)
	old.until("be replaced as the master", func() bool {
		master = s.agreed()
		return master != nil && master != old && master.says("role:master", "INFO", "replication")
	})
	return master
}
