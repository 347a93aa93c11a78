package testserver

import (
	"os"
	"sync"
	"testing"
)

// A Lender has servers for tests that do nothing to them but talk to them: to start one costs more than most of these
// tests do. Each test has a server for itself, without anything on it.
type Lender[S interface {
	Stop()
	Log() string
}] struct {
	Run   func(dir string) (S, error)
	Clean func(S) error // removes what the test has left; a server with which it fails is not lent again

	mu   sync.Mutex
	dir  string // of all
	idle []S    // no test has them
}

// Lend lends a server until the test ends. If the test fails, it shows the server's log.
func (l *Lender[S]) Lend(t testing.TB) S {
	t.Helper()
	s, err := l.take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.Log())
		} else if err := l.Clean(s); err != nil {
			t.Logf("the server is not lent again: %v", err)
		} else {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.idle = append(l.idle, s)
			return
		}
		s.Stop()
	})
	return s
}

func (l *Lender[S]) take() (s S, err error) {
	l.mu.Lock()
	if n := len(l.idle); n > 0 {
		s, l.idle = l.idle[n-1], l.idle[:n-1]
		l.mu.Unlock()
		return s, nil
	}
	l.mu.Unlock()
	dir, err := os.MkdirTemp(l.dir, "")
	if err != nil {
		return s, err
	}
	return l.Run(dir)
}

// Around is what TestMain has to run instead of m: the servers end with the tests.
func (l *Lender[S]) Around(m *testing.M) Lending { return Lending{m, l.begin} }

// Lending runs tests among which servers are lent.
type Lending struct {
	m     *testing.M
	begin func() (end func())
}

// Run runs them.
func (l Lending) Run() int {
	defer l.begin()()
	return l.m.Run()
}

func (l *Lender[S]) begin() (end func()) {
	dir, err := os.MkdirTemp("", "lent-")
	if err != nil {
		panic(err)
	}
	l.dir = dir
	return func() {
		for _, s := range l.idle {
			s.Stop()
		}
		_ = os.RemoveAll(dir)
	}
}
