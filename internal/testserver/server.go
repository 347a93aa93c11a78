package testserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is what all servers have in common: a port, a folder, and a process that
// can be killed, paused, and started again.
type Server struct {
	Addr string // 127.0.0.1 and the port
	Port int
	Dir  string // its data, its configuration and its log

	// With TLS, after Certify: files in PEM form.
	CA, Cert, ClientCert, ClientKey string

	Authority *Authority  // that certifies it; nil: one of its own
	Client    *tls.Config // of this package's connections; nil without TLS

	program Program
	t       testing.TB // nil: none
	release []func()   // of the ports
	clock   *clock     // nil: the true one

	mu      sync.Mutex // makes starts and ends one after the other
	process *Process
}

// Program is what differs from server to server.
type Program struct {
	Name string // in messages

	// Configure writes the files of the server, whose port is known by then; nil: it has none.
	Configure func() error

	Command func() (*exec.Cmd, error)

	// Ready finds out whether the process with this id serves, and not another one that has its port.
	Ready func(pid int) (bool, error)

	// Terminate asks the process to end in good order, soon, whoever is connected; nil: SIGTERM.
	Terminate os.Signal

	// Quit asks the process to end at once, without leaving anything behind in the system; nil: SIGKILL.
	Quit os.Signal
}

// NewServer makes a server that does not run yet, with its data in dir.
func NewServer(dir string, p Program) *Server {
	if p.Terminate == nil {
		p.Terminate = syscall.SIGTERM
	}
	if p.Quit == nil {
		p.Quit = os.Kill
	}
	return &Server{Dir: dir, program: p}
}

// A Runner is a server, of any kind, that does not run yet.
type Runner interface {
	BelongTo(testing.TB)
	Run() error
}

// Start runs servers, all at once: of a cluster one alone does not serve. They end with the test.
func Start[S Runner](t testing.TB, servers ...S) {
	t.Helper()
	for _, s := range servers {
		s.BelongTo(t)
	}
	if err := Each(servers, func(s S) error { return s.Run() }); err != nil {
		t.Fatal(err)
	}
}

// Each does something with all servers at once.
func Each[S any](servers []S, do func(S) error) error {
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Run configures and starts the server, for the first time.
func (s *Server) Run() (err error) {
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return err
	}
	if s.Port, err = s.Reserve(); err != nil {
		return err
	}
	s.Addr = Address(s.Port)
	if s.program.Configure != nil {
		err = s.program.Configure()
	}
	if err == nil {
		err = s.launch()
	}
	if err != nil {
		s.Stop()
	}
	return err
}

// Reserve returns a port that is given to no other process until Stop.
func (s *Server) Reserve() (int, error) {
	port, release, err := Reserve()
	if err != nil {
		return 0, fmt.Errorf("reserve a port: %w", err)
	}
	s.release = append(s.release, release)
	return port, nil
}

// Path is of a file in the server's folder.
func (s *Server) Path(name string) string { return filepath.Join(s.Dir, name) }

// launch starts the process and waits until it serves.
func (s *Server) launch() error {
	log, err := os.OpenFile(s.Path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd, err := s.program.Command()
	if err != nil {
		return err
	}
	cmd.Dir = s.Dir
	cmd.Stdout, cmd.Stderr = log, log
	if s.clock != nil {
		cmd.Env = append(cmd.Environ(), s.clock.env()...)
	}
	p, err := Begin(cmd)
	if err != nil {
		return err
	}
	s.process = p
	err = Until(func() (bool, error) {
		if p.Ended() {
			return false, errors.New("it has ended")
		}
		return s.program.Ready(p.Pid())
	})
	if err != nil {
		err = fmt.Errorf("%s: %w:\n%s", s.program.Name, err, s.Log())
	}
	return err
}

// BelongTo has the server end with the test. If the test fails, it shows the
// server's log.
func (s *Server) BelongTo(t testing.TB) {
	s.t = t
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("log of the server on %s:\n%s", s.Addr, s.Log())
		}
	})
}

// Stop ends the server at once, for good.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.end(s.program.Quit)
	}
	for _, release := range s.release {
		release()
	}
	s.release = nil
}

// Kill ends the server with SIGKILL. It can be started again with Restart.
func (s *Server) Kill() { s.running().Kill() }

// Restart starts the server on the same port, with the data that it has saved. If
// it is still running, it ends in good order before.
func (s *Server) Restart() {
	s.Helper()
	s.Check("restart", s.Again(nil))
}

// Again is Restart. It does something while the server is down, unless that is nil.
func (s *Server) Again(meanwhile func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.end(s.program.Terminate)
	if meanwhile != nil {
		if err := meanwhile(); err != nil {
			return err
		}
	}
	return s.launch()
}

// Pause stops the process with a signal, Resume lets it go on: its connections
// stay, and nothing answers on them.
func (s *Server) Pause() {
	s.Helper()
	s.Check("pause", s.running().Pause())
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.Helper()
	s.Check("resume", s.running().Resume())
}

// Alive says whether the process is there, paused or not.
func (s *Server) Alive() bool { return !s.running().Ended() }

// Pid is the process id, which changes with a Restart.
func (s *Server) Pid() int { return s.running().Pid() }

func (s *Server) running() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Dial connects to the server, with TLS if it wants that.
func (s *Server) Dial(within time.Duration) (net.Conn, error) {
	d := &net.Dialer{Timeout: within}
	if s.Client != nil {
		return tls.DialWithDialer(d, "tcp", s.Addr, s.Client)
	}
	return d.Dial("tcp", s.Addr)
}

// Log is the end of what the server has said.
func (s *Server) Log() string { return Tail(s.Path("log")) }

// Helper is that of the test, if there is one.
func (s *Server) Helper() {
	if s.t != nil {
		s.t.Helper()
	}
}

// Check ends the test if there is an error, or panics if there is no test.
func (s *Server) Check(what string, err error) {
	if err == nil {
		return
	}
	text := fmt.Sprintf("%s on %s: %s: %v", s.program.Name, s.Addr, what, err)
	if s.t == nil {
		panic(text)
	}
	s.t.Helper()
	s.t.Fatal(text)
}
