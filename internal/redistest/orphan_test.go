package redistest_test

import (
	"runtime"
	"testing"

	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// A test process that is killed takes its servers with it.
func TestNoOrphans(t *testing.T) {
	testserver.NoOrphans(t, func(addr string) (ended func()) {
		conn := dial(t, addr)
		conn.expect("PING", pong)
		return conn.ended
	})
}

// Nothing is left in this process when servers and proxies have ended.
func TestNoLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	s, err := redistest.Run(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, err := redistest.RunProxy(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, p.Addr)
	conn.expect("PING", pong)
	p.Hang()
	p.Refuse(true)
	p.Close()
	p.Refuse(false) // too late
	conn.ended()
	s.Kill()
	s.Restart()
	s.Stop()
	eventually(t, "no goroutines left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestManyAtOnce(t *testing.T) {
	for range 10 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			expect(t, "PING", do(t, s, "PING"), "PONG")
		})
	}
}

func TestMain(m *testing.M) {
	testserver.Main(m, func(dir string) (addr string, err error) {
		s, err := redistest.Run(dir)
		if err != nil {
			return "", err
		}
		return s.Addr, nil
	})
}
