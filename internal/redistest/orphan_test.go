package redistest_test

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

	"github.com/interlock-go/interlock/internal/redistest"
)

// A test process that is killed takes its servers with it.
func TestNoOrphans(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNothing$")
	cmd.Env = append(os.Environ(), "REDISTEST_ORPHAN="+t.TempDir())
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
	conn := dial(t, addr)
	conn.expect("PING", pong)
	kill()
	conn.ended()
	eventually(t, "nobody listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
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
	dir := os.Getenv("REDISTEST_ORPHAN")
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := redistest.Run(dir)
	if err != nil {
		panic(err)
	}
	// Threads come and go meanwhile, but not the one that the server hangs on.
	for range 100 {
		go func() { runtime.LockOSThread() }()
	}
	if _, err := s.Do("PING"); err != nil {
		panic(err)
	}
	fmt.Println(s.Addr)
	select {}
}
