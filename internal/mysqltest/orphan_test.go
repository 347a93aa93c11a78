package mysqltest_test

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

	"github.com/interlock-go/interlock/internal/mysqltest"
)

// A test process that is killed takes its servers with it.
func TestNoOrphans(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestNothing$")
	cmd.Env = append(os.Environ(), "MYSQLTEST_ORPHAN="+t.TempDir())
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
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	kill()
	eventually(t, "nobody listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

func TestMain(m *testing.M) {
	dir := os.Getenv("MYSQLTEST_ORPHAN")
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := mysqltest.Run(dir)
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Addr)
	select {}
}
