package zktest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/internal/zktest"
)

// A test process that is killed takes its servers with it.
func TestNoOrphans(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNothing$")
	cmd.Env = append(os.Environ(), "ZKTEST_ORPHAN="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	defer kill()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr = strings.TrimSpace(addr)
	c := connect(t, addr)
	kill()
	c.ended()
	eventually(t, "nobody listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

func TestMain(m *testing.M) {
	dir := os.Getenv("ZKTEST_ORPHAN")
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := zktest.Run(dir)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Addr)
	select {}
}

// Nothing is left in this process when servers and proxies have ended.
func TestNoLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	s, err := zktest.Run(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, err := zktest.RunProxy(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
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

func TestNoLeaksOfEnsembles(t *testing.T) {
	before := runtime.NumGoroutine()
	e, err := zktest.RunEnsemble(t.TempDir(), 2)
	if err != nil {
		t.Fatal(err)
	}
	e.Freeze(e.Leader())
	e.Stop()
	eventually(t, "no goroutines left", func() bool { return runtime.NumGoroutine() <= before })
	for _, s := range e.Servers {
		if s.Alive() {
			t.Errorf("the server on %s is alive", s.Addr)
		}
	}
}
