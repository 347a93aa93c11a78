package redistest_test

import (
	"testing"

	"github.com/interlock-go/interlock/internal/redistest"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, redistest.Users("default off"))
	expect(t, "sentinels", len(s.SentinelAddrs()), 3)
	old, replica := s.Master(), s.Replica()
	same(t, "master", old, s.Nodes[0])
	same(t, "replica", replica, s.Nodes[1])
	do(t, old, "SET", "key", "x")
	expect(t, "written to the replica", do(t, old, "WAIT", "1", "5000"), int64(1))
	old.Kill()
	master := s.WaitFailover(old)
	same(t, "new master", master, replica)
	expect(t, "GET", do(t, master, "GET", "key"), "x")
	expect(t, "SET", do(t, master, "SET", "key", "y"), "OK")
	old.Restart()
	eventually(t, "the old master follows the new one", func() bool {
		value, err := old.Do("GET", "key")
		return err == nil && value == "y"
	})
	same(t, "replica", s.Replica(), old)
}

func TestSentinelTLS(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, redistest.TLS())
	same(t, "master", s.Master(), s.Nodes[0])
}
