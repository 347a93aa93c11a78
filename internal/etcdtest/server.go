// Package etcdtest starts real servers of etcd for tests and benchmarks: one member, or a cluster, of the etcd that
// is installed or of a current one. The current one is built by the module in the folder current, which is outside
// the workspace, since the versions that it needs would bend those of all others.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is one member. A Restart keeps its data.
type Server struct {
	*testserver.Server

	version Version
	flags   []string
	name    string
	peer    string // its URL for other members
	cluster string // --initial-cluster
	state   string // --initial-cluster-state
}

// Option changes how a server is started.
type Option = func(*Server)

// Version says which etcd a server is.
type Version string

const (
	// Installed is the one in the PATH, such as Debian's 3.4, or the one that [Variable] names.
	Installed Version = "installed"

	// Current is the one that the module in the folder current requires.
	Current Version = "current"
)

// Variable is the environment variable with the path of the etcd to be tested with, instead of the
// one in the PATH.
const Variable = "ETCDTEST_SERVER"

// Of chooses the version; without it, a server is the installed one.
func Of(v Version) Option { return func(s *Server) { s.version = v } }

// Flag adds a flag of the server's command line: "--max-txn-ops=8".
func Flag(flags ...string) Option {
	return func(s *Server) { s.flags = append(s.flags, flags...) }
}

// TLS makes the server speak TLS only, with a certificate of its own authority, and ask clients for
// theirs.
func TLS() Option { return func(s *Server) { s.Secure = true } }

var servers = testserver.Kind[*Server](newServer)

// Start starts a member that is a cluster of its own, and ends with the test.
func Start(t testing.TB, opts ...Option) *Server { return servers.Start(t, opts...) }

// Run starts a member with its data in dir, which has to exist. The caller has to Stop it.
func Run(dir string, opts ...Option) (*Server, error) { return servers.Run(dir, opts...) }

func newServer(dir string) *Server {
	s := &Server{name: "one", state: "new"}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "etcd", Configure: s.configure, Command: s.command, Ready: s.ready,
	})
	return s
}

// join reserves the member's second port, and returns what --initial-cluster says of it.
func (s *Server) join() (string, error) {
	port, err := s.Reserve()
	s.peer = "http://" + testserver.Address(port)
	return s.name + "=" + s.peer, err
}

func (s *Server) configure() (err error) {
	if s.cluster == "" {
		s.cluster, err = s.join()
	}
	return err
}

func (s *Server) url() string {
	if s.Secure {
		return "https://" + s.Addr
	}
	return "http://" + s.Addr
}

func (s *Server) command() (*exec.Cmd, error) {
	path, err := program(s.version)
	args := []string{
		"--name", s.name, "--data-dir", s.Path("data"), "--logger", "zap", "--log-outputs", "stderr",
		"--listen-client-urls", s.url(), "--advertise-client-urls", s.url(),
		"--listen-peer-urls", s.peer, "--initial-advertise-peer-urls", s.peer,
		"--initial-cluster", s.cluster, "--initial-cluster-state", s.state, "--initial-cluster-token", s.cluster,
	}
	if s.Secure {
		args = append(args, "--cert-file", s.Cert, "--key-file", s.Cert, "--trusted-ca-file", s.CA, "--client-cert-auth")
	}
	return exec.Command(path, append(args, s.flags...)...), err
}

// program is the path of etcd.
func program(v Version) (string, error) {
	if v == Current {
		return current()
	}
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	return testserver.Find("etcd", "etcd-server")
}

// current builds the server that the folder current requires, unless the build cache has it. All who test
// with it build the same, with and without the race detector.
var current = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	build := exec.Command("go", "tool", "-n", "go.etcd.io/etcd/server/v3")
	build.Dir = filepath.Join(filepath.Dir(file), "current")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	build.Stderr = new(strings.Builder)
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("build etcd: %w: %s", err, build.Stderr)
	}
	return strings.TrimSpace(string(out)), nil
})

// ready asks for the health that the server reports, which needs a leader.
func (s *Server) ready(int) (bool, error) {
	transport := &http.Transport{TLSClientConfig: s.Client}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Timeout: time.Second, Transport: transport}).Get(s.url() + "/health")
	if err != nil {
		return false, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return strings.Contains(string(text), `"true"`), nil
}

// Ctl runs etcdctl with these arguments, and returns what it has printed.
func (s *Server) Ctl(args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := s.Command(ctx, args...).CombinedOutput()
	s.Check("etcdctl "+strings.Join(args, " ")+": "+string(out), err)
	return string(out)
}

// Command is etcdctl with these arguments, to be run by the test.
func (s *Server) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "etcdctl", append([]string{"--endpoints", s.Addr}, args...)...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	return cmd
}

// SetClock lets the server, until it ends, see a wall clock that is ahead of the true one by whole seconds. Where that
// cannot be done, the test is skipped.
func (s *Server) SetClock(t testing.TB, ahead time.Duration) {
	err := testserver.SetWallClock(s.Pid(), ahead)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("the wall clock of a program of Go cannot be set here: %v", err)
	}
	s.Check("set the clock", err)
}

// StickDisk has each write of the server's log wait at its disk from now on, until release is called:
// the process runs, its connections stay, and a leader goes on to answer what needs no write. It is
// done by strace, on Linux.
func (s *Server) StickDisk() (release func()) {
	args := []string{
		"-f", "-qq", "-o", s.Path("strace"), "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=600s",
		"-p", fmt.Sprint(s.Pid()),
	}
	// Not the database: while that waits for its disk, the server answers nothing.
	logs, err := filepath.Glob(s.Path("data/member/wal/*.wal"))
	s.Check("find the log", err)
	for _, path := range logs {
		args = append(args, "-P", path)
	}
	p, err := testserver.Begin(exec.Command("strace", args...))
	s.Check("strace (on Debian: apt-get install strace)", err)
	// It is attached as soon as the kernel says so of each thread.
	s.Await("attach strace", func() (bool, error) {
		if p.Ended() {
			return false, fmt.Errorf("strace has ended: it may need a right (CAP_SYS_PTRACE)")
		}
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.Pid()))
		for _, path := range threads {
			if text, _ := os.ReadFile(path); strings.Contains(string(text), "TracerPid:\t0\n") {
				return false, nil
			}
		}
		return len(threads) > 0, nil
	})
	return p.Terminate
}

// GRPCProxy starts the gRPC proxy of the installed etcd for a server, and returns its address. It ends with the test.
func GRPCProxy(t testing.TB, addr string) string {
	var p *testserver.Server
	p = testserver.NewServer(t.TempDir(), testserver.Program{
		Name: "etcd grpc-proxy",
		Command: func() (*exec.Cmd, error) {
			return exec.Command("etcd", "grpc-proxy", "start", "--endpoints="+addr, "--listen-addr="+p.Addr), nil
		},
		Ready: func(int) (bool, error) {
			c, err := net.Dial("tcp", p.Addr)
			if err == nil {
				_ = c.Close()
			}
			return err == nil, nil
		},
	})
	testserver.Start(t, p)
	return p.Addr
}
