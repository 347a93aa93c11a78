package redistest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is one Redis server, or one sentinel.
type Server struct {
	Addr string // 127.0.0.1 and the port
	Port int
	Dir  string // its data, its configuration and its log

	// With TLS: files in PEM form.
	CA, ClientCert, ClientKey string

	t       testing.TB // nil: none
	busPort int        // where the nodes of a cluster talk to each other
	set     settings
	secure  *tls.Config
	clock   *clock
	release []func() // of the ports

	mu      sync.Mutex // makes starts and ends one after the other
	process *testserver.Process
}

// Start starts a server that ends with the test. If the test fails, it shows
// the server's log.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := Run(t.TempDir(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	s.belongTo(t)
	return s
}

func (s *Server) belongTo(t testing.TB) {
	s.t = t
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("log of the server on %s:\n%s", s.Addr, s.Log())
		}
	})
}

// Run starts a server with its data in dir, which has to exist. The caller has
// to Stop it.
func Run(dir string, opts ...Option) (*Server, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir}
	for _, opt := range opts {
		opt(&s.set)
	}
	if _, err := exec.LookPath(binary); err != nil {
		return nil, fmt.Errorf("install redis-server (on Debian: apt-get install redis-server): %w", err)
	}
	for range 10 {
		if err = s.prepare(); err == nil {
			err = s.launch()
		}
		if err == nil {
			return s, nil
		}
		s.Stop()
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, err
}

// binary is a sentinel as well, if it is told so.
const binary = "redis-server"

// errPortTaken: between the choice of a port and its use somebody else has got it.
var errPortTaken = errors.New("the port is taken")

// prepare writes all files of the server and reserves its ports.
func (s *Server) prepare() error {
	var err error
	if s.Port, err = s.reserve(); err != nil {
		return err
	}
	s.Addr = testserver.Address(s.Port)
	text := s.set.file(s.Dir)
	if s.set.tls {
		lines, err := s.prepareTLS()
		if err != nil {
			return err
		}
		text += lines
	} else {
		text += fmt.Sprintf("port %d\n", s.Port)
	}
	if s.set.cluster {
		if s.busPort, err = s.reserve(); err != nil {
			return err
		}
		text += fmt.Sprintf("cluster-port %d\n", s.busPort)
	}
	if s.set.fake {
		if s.clock, err = newClock(s.Dir, s.set.offset); err != nil {
			return err
		}
	}
	return os.WriteFile(s.path("redis.conf"), []byte(text), 0o600)
}

func (s *Server) reserve() (int, error) {
	port, release, err := testserver.Reserve()
	if err == nil {
		s.release = append(s.release, release)
	}
	return port, err
}

func (s *Server) path(name string) string { return filepath.Join(s.Dir, name) }

// launch starts the process and waits until it serves.
func (s *Server) launch() error {
	log, err := os.OpenFile(s.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	args := []string{s.path("redis.conf")}
	if s.set.sentinel {
		args = append(args, "--sentinel")
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = s.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = os.Environ()
	if s.clock != nil {
		cmd.Env = append(cmd.Env, s.clock.env()...)
	}
	if s.process, err = testserver.Begin(cmd); err != nil {
		return err
	}
	return s.awaitReady(s.process)
}

// awaitReady waits until this process answers, and not one that has its port.
func (s *Server) awaitReady(p *testserver.Process) error {
	pid := fmt.Sprintf("\nprocess_id:%d\r", p.Pid())
	err := testserver.Until(func() (bool, error) {
		if p.Ended() {
			text := s.Log()
			if strings.Contains(text, "Address already in use") {
				return false, fmt.Errorf("%s: %w", s.Addr, errPortTaken)
			}
			return false, fmt.Errorf("redis-server has ended:\n%s", text)
		}
		if info, err := s.Do("INFO", "server"); err != nil || !strings.Contains(fmt.Sprint(info), pid) {
			return false, nil
		}
		_, err := s.Do("PING")
		return err == nil, nil
	})
	if errors.Is(err, testserver.ErrSlow) {
		err = fmt.Errorf("redis-server does not answer:\n%s", s.Log())
	}
	return err
}

// Stop ends the server at once, for good: it does not save its data.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Kill()
	}
	for _, release := range s.release {
		release()
	}
	s.release = nil
}

// Kill ends the server with SIGKILL. It can be started again with Restart.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Kill()
}

// Restart starts the server on the same port, with the data that it has saved:
// without Durable there is none. If it is still running, it ends in good order
// before.
func (s *Server) Restart() {
	s.helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Terminate()
	if err := s.launch(); err != nil {
		s.fail("restart: %v", err)
	}
}

// Pause stops the process with a signal, Resume lets it go on: its connections
// stay, and nobody answers on them.
func (s *Server) Pause() {
	s.helper()
	s.check("pause", s.running().Pause())
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.helper()
	s.check("resume", s.running().Resume())
}

// Pid is the process id, which changes with a Restart.
func (s *Server) Pid() int { return s.running().Pid() }

func (s *Server) running() *testserver.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// URL is redis://127.0.0.1:port, or rediss:// with TLS.
func (s *Server) URL() string {
	if s.set.tls {
		return "rediss://" + s.Addr
	}
	return "redis://" + s.Addr
}

// Log is the end of what the server has said.
func (s *Server) Log() string { return testserver.Tail(s.path("log")) }

func (s *Server) helper() {
	if s.t != nil {
		s.t.Helper()
	}
}

func (s *Server) check(what string, err error) {
	if err != nil {
		s.helper()
		s.fail("%s: %v", what, err)
	}
}

func (s *Server) fail(format string, args ...any) {
	text := "redis on " + s.Addr + ": " + fmt.Sprintf(format, args...)
	if s.t == nil {
		panic(text)
	}
	s.t.Helper()
	s.t.Fatal(text)
}
