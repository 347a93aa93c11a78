package etcdtest_test

import (
	"testing"

	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// A test process that is killed takes its servers with it.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	testserver.NoOrphans(t, testserver.Silent(t))
}

// Promise: a server keeps its data over a restart.
func TestARestartKeepsTheData(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	s.Ctl("put", "key", "value")
	s.Kill()
	s.Restart()
	if got := s.Ctl("get", "--print-value-only", "key"); got != "value\n" {
		t.Errorf("the value is %q", got)
	}
}

func TestMain(m *testing.M) {
	testserver.Main(m, func(dir string) (addr string, err error) {
		s, err := etcdtest.Run(dir)
		if err != nil {
			return "", err
		}
		return s.Addr, nil
	})
}

// Promise: when the leader is killed, the others elect another one.
func TestTheLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartCluster(t, 3)
	first := c.Leader()
	first.Kill()
	second := c.Leader(c.Others(first)...)
	if second == first {
		t.Fatal("the dead leads")
	}
	second.Ctl("put", "key", "value")
	first.Restart()
	c.Leader()
	if got := first.Ctl("get", "--print-value-only", "key"); got != "value\n" {
		t.Errorf("the value is %q", got)
	}
}
