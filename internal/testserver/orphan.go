package testserver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// orphan is set in the environment of the copies of a test binary that start a server
// and are killed.
const orphan = "TESTSERVER_ORPHAN"

// Main is for TestMain of a package whose servers are tested by NoOrphans, and
// runs one of their copies in a folder.
func Main(m interface{ Run() int }, run func(dir string) (addr string, err error)) {
	dir := os.Getenv(orphan)
	if dir == "" {
		os.Exit(m.Run())
	}
	addr, err := run(dir)
	if err != nil {
		panic(err)
	}
	// Threads come and go meanwhile, but not the one that the server hangs on.
	for range 100 {
		go func() { runtime.LockOSThread() }()
	}
	fmt.Println(addr)
	select {}
}

// Silent connects to a server for NoOrphans, and says nothing.
func Silent(t *testing.T) func(addr string) (ended func()) {
	return func(addr string) (ended func()) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn)
		}
	}
}

// NoOrphans checks that a test process that is killed takes its servers with it. Use
// connects to one, and returns a function that waits for the end of the connection.
func NoOrphans(t *testing.T, use func(addr string) (ended func())) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNothing$")
	cmd.Env = append(os.Environ(), orphan+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
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
		kill()
		t.Fatalf("the copy of this program has told no address: %v\n%s", err, &complaint)
	}
	addr = strings.TrimSpace(addr)
	ended := use(addr)
	kill()
	ended()
	err = Until(func() (bool, error) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil, nil
	})
	if err != nil {
		t.Fatalf("the server on %s goes on: %v", addr, err)
	}
}
