package zktest_test

import (
	"runtime"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/internal/zktest"
)

// A test process that is killed takes its servers with it.
func TestNoOrphans(t *testing.T) {
	testserver.NoOrphans(t, func(addr string) (ended func()) { return connect(t, addr).ended })
}

func TestMain(m *testing.M) {
	testserver.Main(m, func(dir string) (addr string, err error) {
		s, err := zktest.Run(dir)
		if err != nil {
			return "", err
		}
		return s.Addr, nil
	})
}

// Nothing is left in this process when servers and proxies have ended.
func TestNoLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	s := errtest.Must(zktest.Run(t.TempDir()))(t)
	p := errtest.Must(zktest.RunProxy(s.Addr))(t)
	c := connect(t, p.Addr)
	h := p.HoldReplies(zktest.With())
	c.send(opExists, watched("/", false))
	<-h.Held()
	p.Hang()
	p.Close()
	c.ended()
	h.Release()
	s.Kill()
	s.Restart()
	s.Stop()
	eventually(t, "no goroutines left", func() bool { return runtime.NumGoroutine() <= before })
}
