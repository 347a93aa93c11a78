package zklock_test

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/internal/zktest"
)

// servers are lent without nodes and sessions.
var servers = testserver.Lender[*zktest.Server]{
	Run:   func(dir string) (*zktest.Server, error) { return zktest.Run(dir) },
	Clean: clean,
}

func lent(t *testing.T) *zktest.Server { t.Helper(); return servers.Lend(t) }

// clean removes all nodes of a server, and fails if a session is left.
func clean(s *zktest.Server) error {
	c, _, err := zk.Connect([]string{s.Addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	err = empty(c, "")
	_, root, wrong := c.Get("/")
	c.Close()
	if err := errors.Join(err, wrong); err != nil {
		return err
	}
	if root.Version != 0 || root.Aversion != 0 {
		return fmt.Errorf("its root was changed: %+v", root)
	}
	// A session whose connection was closed without a word stays until it has timed out.
	for end := time.Now().Add(time.Second); ; time.Sleep(10 * time.Millisecond) {
		n := s.Figure("global_sessions")
		if n == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%v sessions are left", n)
		}
	}
}

// empty removes all nodes below a path, but for those of ZooKeeper itself.
func empty(c *zk.Conn, path string) error {
	names, _, err := c.Children(cmp.Or(path, "/"))
	for _, name := range names {
		if child := path + "/" + name; err == nil && child != "/zookeeper" {
			if err = empty(c, child); err == nil {
				err = c.Delete(child, -1)
			}
		}
	}
	return err
}
