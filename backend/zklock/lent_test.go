package zklock_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/internal/zktest"
)

// lent is a server, as zktest.Start makes it, for a test that does nothing to it but talk to
// it. The test gets it without nodes and sessions, and so does the next one, or it gets
// another server: to start one costs more than most of these tests do.
func lent(t *testing.T) *zktest.Server {
	t.Helper()
	s, err := servers.take()
	noError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server on %s:\n%s", s.Addr, s.Log())
		} else if err := clean(s); err != nil {
			t.Logf("the server on %s is not lent again: %v", s.Addr, err)
		} else {
			servers.give(s)
			return
		}
		s.Stop()
	})
	return s
}

// servers are those that are lent.
var servers lender

type lender struct {
	mu   sync.Mutex
	dir  string           // of all
	idle []*zktest.Server // no test has them
}

func (l *lender) take() (*zktest.Server, error) {
	if s := l.one(); s != nil {
		return s, nil
	}
	dir, err := os.MkdirTemp(l.dir, "")
	if err != nil {
		return nil, err
	}
	return zktest.Run(dir)
}

// one is an idle server, or nil.
func (l *lender) one() *zktest.Server {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.idle)
	if n == 0 {
		return nil
	}
	s := l.idle[n-1]
	l.idle = l.idle[:n-1]
	return s
}

func (l *lender) give(s *zktest.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = append(l.idle, s)
}

// lending runs the tests and ends the servers that they were lent.
type lending struct{ *testing.M }

func (m lending) Run() int {
	var err error
	if servers.dir, err = os.MkdirTemp("", "zklock-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(servers.dir)
	defer func() {
		for _, s := range servers.idle {
			s.Stop()
		}
	}()
	return m.M.Run()
}

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
