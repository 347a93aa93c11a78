package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Cluster is a Redis cluster.
type Cluster struct {
	Nodes []*Server // the masters, in the order of their slots, then the replicas
}

const slots = 16384

const nodeTimeout = "cluster-node-timeout"

// Replicas gives every master of a cluster so many replicas.
func Replicas(n int) Option { return func(s *settings) { s.replicas = n } }

// StartCluster starts a cluster that ends with the test. The options are those
// of every node; Config("cluster-node-timeout", milliseconds) says how fast a
// dead node is noticed: without it after a minute, so that a pause is not taken for a
// death. A cluster takes more than two seconds to start, since
// its masters refuse to serve earlier.
func StartCluster(t testing.TB, masters int, opts ...Option) *Cluster {
	t.Helper()
	c, err := RunCluster(t.TempDir(), masters, opts...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Nodes {
		s.BelongTo(t)
	}
	return c
}

// RunCluster starts a cluster with its data in dir. The caller has to Stop it.
func RunCluster(dir string, masters int, opts ...Option) (*Cluster, error) {
	if masters < 1 || masters > slots {
		return nil, fmt.Errorf("a cluster of %d masters: want 1 to %d", masters, slots)
	}
	var set settings
	for _, opt := range opts {
		opt(&set)
	}
	trust, err := oneAuthority(dir, opts)
	if err != nil {
		return nil, err
	}
	all := append([]Option{
		func(s *settings) { s.cluster = true },
		Config("cluster-enabled", "yes"),
		Config("cluster-announce-ip", "127.0.0.1"),
		Config(nodeTimeout, "2000"), // while it forms: also of handshakes
		trust,
	}, opts...)
	nodes, err := runAll(dir, "node", masters*(1+set.replicas), func(int) []Option { return all })
	if err != nil {
		return nil, err
	}
	c := &Cluster{Nodes: nodes}
	err = c.form(masters)
	if err == nil && !set.has(nodeTimeout) {
		err = c.bear("60000")
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// bear sets for how long nodes bear with one that does not answer.
func (c *Cluster) bear(milliseconds string) error {
	for _, s := range c.Nodes {
		if _, err := s.Do("CONFIG", "SET", nodeTimeout, milliseconds); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends all nodes.
func (c *Cluster) Stop() { stopAll(c.Nodes) }

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

// form makes one cluster of the nodes.
func (c *Cluster) form(masters int) error {
	first := func(i int) string { return strconv.Itoa(i * slots / masters) }
	last := func(i int) string { return strconv.Itoa((i+1)*slots/masters - 1) }
	for i, s := range c.Nodes[:masters] {
		// With an epoch of its own no node has to wait for another to find one.
		if _, err := s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if _, err := s.Do("CLUSTER", "ADDSLOTSRANGE", first(i), last(i)); err != nil {
			return err
		}
	}
	if err := c.meet(); err != nil {
		return err
	}
	for i, s := range c.Nodes[masters:] {
		if err := s.replicate(c.Nodes[i%masters]); err != nil {
			return err
		}
	}
	for i, s := range c.Nodes {
		err := testserver.Until(func() (bool, error) {
			return s.says([]string{"CLUSTER", "INFO"}, "cluster_state:ok") && (i < masters || s.inSync()), nil
		})
		if err != nil {
			return fmt.Errorf("the node on %s is in no cluster: %w\n%s", s.Addr, err, s.Log())
		}
	}
	return nil
}

// meet introduces all nodes to each other.
func (c *Cluster) meet() error {
	var met time.Time
	return testserver.Until(func() (bool, error) {
		if !slices.ContainsFunc(c.Nodes, func(s *Server) bool { return s.linked() < len(c.Nodes) }) {
			return true, nil
		}
		if time.Since(met) < 2*time.Second { // a handshake that has not succeeded by then is given up
			return false, nil
		}
		met = time.Now()
		for i, s := range c.Nodes {
			for _, other := range c.Nodes[:i] {
				_, err := s.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.Port), strconv.Itoa(other.busPort))
				if err != nil {
					return false, err
				}
			}
		}
		return false, nil
	})
}

// linked is how many nodes of the cluster this node is connected to, and itself.
func (s *Server) linked() int {
	answer, err := s.Do("CLUSTER", "NODES")
	text, ok := answer.(string)
	if err != nil || !ok {
		return 0
	}
	n := 0
	for line := range strings.Lines(text) {
		// id, address, flags, master, ping sent, pong received, epoch, link, slots
		f := strings.Fields(line)
		if len(f) >= 8 && f[7] == "connected" && !strings.Contains(f[2], "handshake") {
			n++
		}
	}
	return n
}

// replicate makes s a replica, as soon as it has heard of its master.
func (s *Server) replicate(master *Server) error {
	id, err := master.Do("CLUSTER", "MYID")
	if err != nil {
		return err
	}
	var answer error
	if err = testserver.Until(func() (bool, error) {
		_, answer = s.Do("CLUSTER", "REPLICATE", id.(string))
		return answer == nil, nil
	}); err != nil {
		return answer
	}
	return nil
}

// Owner is the master that serves a key.
func (c *Cluster) Owner(key string) *Server {
	c.Nodes[0].Helper()
	asked := c.anyNode()
	port, err := asked.owner(asked.must("CLUSTER", "KEYSLOT", key).(int64))
	asked.Check("find the owner of "+key, err)
	i := slices.IndexFunc(c.Nodes, func(s *Server) bool { return s.Port == port })
	if i < 0 {
		asked.Fail("key %s belongs to nobody", key)
	}
	return c.Nodes[i]
}

// owner is the port of the master that serves a slot, as this node sees it; 0
// if it knows none.
func (s *Server) owner(slot int64) (int, error) {
	answer, err := s.Do("CLUSTER", "SLOTS")
	if err != nil {
		return 0, err
	}
	for _, entry := range answer.([]any) {
		r := entry.([]any) // first and last slot, master, replicas
		if r[0].(int64) <= slot && slot <= r[1].(int64) {
			return int(r[2].([]any)[1].(int64)), nil
		}
	}
	return 0, nil
}

// anyNode is one that answers.
func (c *Cluster) anyNode() *Server {
	for _, s := range c.Nodes {
		if s.says([]string{"CLUSTER", "INFO"}, "cluster_state:ok") {
			return s
		}
	}
	return c.Nodes[0]
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
	for {
		keys := from.must("CLUSTER", "GETKEYSINSLOT", slot, "100").([]any)
		if len(keys) == 0 {
			break
		}
		migrate := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), "", "0", "5000",
			"AUTH2", admin, adminPassword, "KEYS"}
		for _, key := range keys {
			migrate = append(migrate, key.(string))
		}
		from.must(migrate...)
	}
	to.must("CLUSTER", "SETSLOT", slot, "NODE", toID)
	from.must("CLUSTER", "SETSLOT", slot, "NODE", toID)
	for _, s := range c.Nodes {
		err := testserver.Until(func() (bool, error) {
			port, err := s.owner(n)
			return port == to.Port, err
		})
		s.Check("hear that slot "+slot+" has moved", err)
	}
}
