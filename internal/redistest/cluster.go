package redistest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Cluster is a Redis cluster.
type Cluster struct {
	Nodes []*Server // the masters, in the order of their slots, then their replicas
}

// Replicas gives every master of a cluster so many replicas.
func Replicas(n int) Option { return func(s *settings) { s.replicas = n } }

// startAll starts n servers that trust each other and end with the test.
func startAll(t testing.TB, n int, opts ...Option) []*Server {
	t.Helper()
	ca, err := testserver.NewAuthority(filepath.Join(t.TempDir(), "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	var all []*Server
	for range n {
		s := newServer(t.TempDir(), opts)
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
	t.Helper()
	set := newServer("", opts).set
	opts = append([]Option{func(s *settings) { s.cluster = true }}, opts...)
	c := &Cluster{startAll(t, masters*(1+set.replicas), opts...)}
	first := c.Nodes[0]
	args := []string{"--user", admin, "--pass", adminPassword, "--no-auth-warning"}
	if set.tls {
		args = append(args, "--tls", "--cacert", first.CA, "--cert", first.ClientCert, "--key", first.ClientKey)
	}
	args = append(args, "--cluster-yes", "--cluster-replicas", strconv.Itoa(set.replicas), "--cluster", "create")
	for _, s := range c.Nodes {
		args = append(args, fmt.Sprintf("%s@%d", s.Addr, s.busPort))
	}
	if out, err := exec.Command("redis-cli", args...).CombinedOutput(); err != nil {
		t.Fatalf("redis-cli: %v\n%s", err, out)
	}
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
	s.Helper()
	s.Check(what, testserver.Until(func() (bool, error) { return ok(), nil }))
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
	asked.Helper()
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
	s.Helper()
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
	to.Helper()
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
	for _, s := range c.Nodes {
		s.until("hear that slot "+slot+" has moved", func() bool { return s.owner(n) == to.Port })
	}
}
