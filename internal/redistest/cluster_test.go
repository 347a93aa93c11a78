package redistest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/redistest"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	expect(t, "nodes", len(c.Addrs()), 3)
	for i := range 20 {
		key := fmt.Sprint("key", i)
		expect(t, "SET", do(t, c.Owner(key), "SET", key, "x"), "OK")
	}
	for _, s := range c.Nodes {
		if len(s.Keys()) == 0 {
			t.Errorf("%s has no keys: the slots are not spread", s.Addr)
		}
	}
	from, to := c.Owner("key"), c.Nodes[0]
	if from == to {
		to = c.Nodes[1]
	}
	do(t, from, "SET", "key", "moves")
	c.Move("key", to)
	same(t, "owner", c.Owner("key"), to)
	expect(t, "GET", do(t, to, "GET", "key"), "moves")
	if _, err := from.Do("GET", "key"); err == nil || !strings.Contains(err.Error(), "MOVED") {
		t.Errorf("the old owner says %v, want a redirection", err)
	}
	to.Kill()
	to.Restart()
	eventually(t, "the cluster is whole again", func() bool {
		_, err := to.Do("SET", "key", "y")
		return err == nil
	})
}

func TestClusterWithReplicas(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, redistest.Replicas(1), redistest.TLS(),
		redistest.Config("cluster-node-timeout", "1000"), redistest.Users("default off"))
	old := c.Owner("key")
	do(t, old, "SET", "key", "x")
	expect(t, "written to a replica", do(t, old, "WAIT", "1", "5000"), int64(1))
	old.Kill()
	eventually(t, "a replica takes over", func() bool {
		for _, s := range c.Nodes {
			if s != old {
				if value, err := s.Do("GET", "key"); err == nil {
					return value == "x"
				}
			}
		}
		return false
	})
	if c.Owner("key") == old {
		t.Error("the owner is dead")
	}
}
