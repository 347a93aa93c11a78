package zktest

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
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is one ZooKeeper server.
type Server struct {
	Addr string // 127.0.0.1 and the port
	Port int
	Dir  string // its data, its configuration and its log

	// With TLS: files in PEM form.
	CA, ClientCert, ClientKey string

	t       testing.TB // nil: none
	set     settings
	peer    *peer // nil: it is no part of an ensemble
	secure  *tls.Config
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
	if err := installed(); err != nil {
		return nil, err
	}
	s := newServer(dir, opts)
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

func newServer(dir string, opts []Option) *Server {
	s := &Server{Dir: dir}
	for _, opt := range opts {
		opt(&s.set)
	}
	return s
}

// jars are the server, which names most of its libraries itself, what it lacks
// for TLS, and a log on the standard error.
var jars = []string{
	"/usr/share/java/zookeeper.jar",
	"/usr/share/java/netty-codec.jar",
	"/usr/share/java/slf4j-simple.jar",
}

func installed() error {
	_, err := exec.LookPath("java")
	for _, jar := range jars {
		if err == nil {
			_, err = os.Stat(jar)
		}
	}
	if err != nil {
		return fmt.Errorf("install ZooKeeper (on Debian: apt-get install libzookeeper-java default-jre-headless): %w", err)
	}
	return nil
}

// errPortTaken: between the choice of a port and its use somebody else has got it.
var errPortTaken = errors.New("the port is taken")

// prepare reserves the port of the server and writes its configuration.
func (s *Server) prepare() error {
	var err error
	if s.Port, err = s.reserve(); err != nil {
		return err
	}
	s.Addr = testserver.Address(s.Port)
	text := s.set.file(s.path("data"))
	if s.set.tls {
		lines, err := s.prepareTLS()
		if err != nil {
			return err
		}
		text += lines
	} else {
		text += fmt.Sprintf(plainPort, s.Port)
	}
	if s.peer != nil {
		text += s.peer.lines
	}
	return os.WriteFile(s.path("zoo.cfg"), []byte(text), 0o600)
}

const plainPort = "clientPortAddress=127.0.0.1\nclientPort=%d\n"

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
	if s.peer != nil {
		if err := s.peer.name(s.path("data")); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(s.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command("java", s.set.command(s.path("zoo.cfg"))...)
	cmd.Dir = s.Dir
	cmd.Stdout, cmd.Stderr = log, log
	if s.process, err = testserver.Begin(cmd); err != nil {
		return err
	}
	return s.awaitReady(s.process)
}

// awaitReady waits until this process serves, and not one that has its port.
func (s *Server) awaitReady(p *testserver.Process) error {
	known := false
	// A server that has just begun to listen may accept a connection and never
	// answer there.
	patience := 100 * time.Millisecond
	err := testserver.Until(func() (bool, error) {
		if p.Ended() {
			text := s.Log()
			if strings.Contains(text, "Address already in use") {
				return false, fmt.Errorf("%s: %w", s.Addr, errPortTaken)
			}
			return false, fmt.Errorf("ZooKeeper has ended:\n%s", text)
		}
		var err error
		if !known {
			var conf string
			conf, err = s.askWithin(patience, "conf")
			known = strings.Contains(conf, s.path("data"))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			patience = min(2*patience, answerWithin)
		}
		return known && s.Serving(), nil
	})
	if errors.Is(err, testserver.ErrSlow) {
		err = fmt.Errorf("ZooKeeper does not answer:\n%s", s.Log())
	}
	return err
}

// Stop ends the server at once, for good.
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
func (s *Server) Kill() { s.running().Kill() }

// Restart starts the server on the same port, with the same data. If it is
// still running, it ends in good order before.
func (s *Server) Restart() {
	s.helper()
	s.check("restart", s.again(func() error { return nil }))
}

// RestartEmpty is like Restart, but the server has lost all its data.
func (s *Server) RestartEmpty() {
	s.helper()
	s.check("restart", s.again(func() error { return os.RemoveAll(s.path("data")) }))
}

func (s *Server) again(meanwhile func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.Terminate()
	if err := meanwhile(); err != nil {
		return err
	}
	return s.launch()
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

// Alive says whether the process is there, paused or not.
func (s *Server) Alive() bool { return !s.running().Ended() }

func (s *Server) running() *testserver.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
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
	text := "ZooKeeper on " + s.Addr + ": " + fmt.Sprintf(format, args...)
	if s.t == nil {
		panic(text)
	}
	s.t.Helper()
	s.t.Fatal(text)
}
