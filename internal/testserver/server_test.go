package testserver_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Copies of this program are started with one of these in their environment.
const (
	echoes = "TESTSERVER_ECHO"   // a server at this address says each line again, and its process id to the line "pid"
	orphan = "TESTSERVER_ORPHAN" // starts such a server in this folder, says its address, and is killed
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(echoes) != "":
		echo(os.Getenv(echoes))
	case os.Getenv(orphan) != "":
		s := newServer(os.Getenv(orphan))
		if err := s.Run(); err != nil {
			panic(err)
		}
		for range 100 { // threads come and go meanwhile, but not the one that the server hangs on
			go func() { runtime.LockOSThread() }()
		}
		fmt.Println(s.Addr)
		select {}
	}
	os.Exit(m.Run())
}

func echo(addr string) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			for lines := bufio.NewScanner(c); lines.Scan(); {
				text := lines.Text()
				switch text {
				case "pid":
					text = fmt.Sprint(os.Getpid())
				case "bye":
					return
				}
				fmt.Fprintln(c, text)
			}
		}()
	}
}

func newServer(dir string) *testserver.Server {
	var s *testserver.Server
	s = testserver.NewServer(dir, testserver.Program{
		Name: "echo",
		Command: func() (*exec.Cmd, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), orphan+"=", echoes+"="+s.Addr)
			return cmd, nil
		},
		Ready: func(pid int) (bool, error) {
			c, err := net.Dial("tcp", s.Addr)
			if err != nil {
				return false, nil
			}
			defer c.Close()
			fmt.Fprintln(c, "pid")
			line, _ := bufio.NewReader(c).ReadString('\n')
			return line == fmt.Sprintln(pid), nil
		},
	})
	return s
}

func start(t *testing.T) *testserver.Server {
	t.Helper()
	s := newServer(t.TempDir())
	testserver.Start(t, s)
	return s
}

// client is a connection.
type client struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{t, c}
}

func (c *client) send(lines ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c, strings.Join(lines, "\n")+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// next is what comes within some time: a line, nothing, or the end.
func (c *client) next(within time.Duration) string {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		c.t.Fatal(err)
	}
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b...) {
		_, err := c.Read(b)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "nothing" + string(line)
		case err != nil:
			return "the end" + string(line)
		case b[0] == '\n':
			return string(line)
		}
	}
}

func (c *client) reads(want string) {
	c.t.Helper()
	if got := c.next(busy.Bound(20 * time.Second)); got != want {
		c.t.Fatalf("got %q, want %q", got, want)
	}
}

func (c *client) silent() {
	c.t.Helper()
	if got := c.next(30 * time.Millisecond); got != "nothing" {
		c.t.Fatalf("got %q, want nothing", got)
	}
}

func (c *client) echoes(line string) {
	c.t.Helper()
	c.send(line)
	c.reads(line)
}

func refused(t *testing.T, addr string) {
	t.Helper()
	if _, err := net.Dial("tcp", addr); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v, want a refusal", err)
	}
}

// Promise: a server has its port and its folder until the end, through kills, restarts and pauses; no other
// process is given the port meanwhile.
func TestServer(t *testing.T) {
	s := start(t)
	addr, first := s.Addr, s.Pid()
	dial(t, addr).echoes("a")
	s.Kill()
	if refused(t, addr); s.Alive() {
		t.Error("alive after it was killed")
	}
	port, err := s.Reserve() // another one, on which nothing was that the kernel remembers
	s.Check("reserve a port", err)
	kept(t, port)
	s.Restart()
	second := s.Pid()
	s.Restart()
	if s.Addr != addr || first == second || second == s.Pid() {
		t.Error("another address, or the same process")
	}
	c := dial(t, addr)
	c.echoes("a")
	s.Pause()
	c.send("b")
	c.silent()
	s.Resume()
	c.reads("b")
	s.Pause()
	s.Stop()
	s.Stop()
	refused(t, addr)
}

// Promise: a server that does not come up is an error with what it has said.
func TestServerThatEnds(t *testing.T) {
	s := testserver.NewServer(t.TempDir(), testserver.Program{
		Name:    "shell",
		Command: func() (*exec.Cmd, error) { return exec.Command("sh", "-c", "echo no such option >&2; exit 1"), nil },
		Ready:   func(int) (bool, error) { return false, nil },
	})
	if err := s.Run(); err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("got %v, want its own complaint", err)
	}
	_, err := testserver.Find("no-such-program", "a-package")
	if err == nil || !strings.Contains(err.Error(), "install a-package") {
		t.Errorf("got %v, want what to install", err)
	}
}

// Promise: a test process that is killed takes its servers with it.
func TestNoOrphans(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphan+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("the copy of this program has told no address: ", err)
	}
	c := dial(t, strings.TrimSpace(addr))
	c.echoes("a")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.reads("the end")
	busy.Until(t, "the server has ended", func() bool {
		c, err := net.Dial("tcp", c.RemoteAddr().String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
}

// Promise: nothing is left in this process when servers and proxies have ended.
func TestNoLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	s := newServer(t.TempDir())
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	p, err := testserver.RunProxy(s.Addr, testserver.ProxyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, p.Addr)
	c.echoes("a")
	p.Hang()
	p.Refuse(true)
	p.Close()
	p.Refuse(false) // too late
	c.reads("the end")
	s.Kill()
	s.Restart()
	s.Stop()
	busy.Until(t, "no goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
	var files []*os.File
	for range 100 { // one of them has the number that the proxy had
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p.Close() // once more
	for _, f := range files {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// noted is a test that notes how it fails.
type noted struct {
	testing.TB
	text string
}

func (n *noted) Helper()                           {}
func (n *noted) Fatalf(format string, args ...any) { n.text = fmt.Sprintf(format, args...) }

// Promise: what fails in a server or in a helper names the line of the test.
func TestTheLineOfATestIsNamed(t *testing.T) {
	n := &noted{TB: t}
	func() { testserver.OK(n, errors.New("the server is lost")) }()
	if !regexp.MustCompile(`^the server is lost\n\tat server_test\.go:\d+$`).MatchString(n.text) {
		t.Errorf("it fails with %q", n.text)
	}
}
