package redistest_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
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
	addr, err := bufio.NewReader(out).ReadString('\n')
	addr = strings.TrimSpace(addr)
	conn := dial(t, addr)
	conn.expect("PING", pong)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	conn.ended()
	eventually(t, "nobody listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
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
	println := func(text string) { _, _ = os.Stdout.WriteString(text + "\n") }
	println(s.Addr)
	select {}
}
