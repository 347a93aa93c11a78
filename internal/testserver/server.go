package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Server is what all servers have in common: a port, a folder, and a process that
// can be killed, paused, and started again.
type Server struct {
	Addr string // 127.0.0.1 and the port
	Port int
	Dir  string // its data, its configuration and its log

	program Program
	t       testing.TB // nil: none
	release []func()   // of the ports

	mu      sync.Mutex // makes starts and ends one after the other
	process *Process
}

// Program is what differs from server to server.
type Program struct {
	Name string // in messages

	// Configure writes the files of the server, whose port is known by then.
	Configure func() error

	Command func() (*exec.Cmd, error)

	// Ready returns what finds out whether the process serves, and not another one
	// that has its port.
	Ready func(pid int) func() (bool, error)

	// Terminate asks the process to end in good order, soon, whoever is connected;
	// nil: SIGTERM does.
	Terminate func(*os.Process) error

	// Quit asks the process to end at once, without leaving anything behind in the
	// system; nil: SIGKILL does.
	Quit func(*os.Process) error
}

// NewServer makes a server that does not run yet.
func NewServer(dir string, p Program) *Server {
	if p.Terminate == nil {
		p.Terminate = terminate
	}
	return &Server{Dir: dir, program: p}
}

// errPortTaken: between the choice of a port and its use somebody else has got it.
var errPortTaken = errors.New("the port is taken")

// Run configures and starts the server, on another port if somebody else has got
// that one first.
func (s *Server) Run() error {
	var err error
	for range 10 {
		if err = s.Prepare(); err == nil {
			err = s.Launch()
		}
		if err == nil {
			return nil
		}
		s.Stop()
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return err
}

// Prepare reserves the port of the server and has its files written.
func (s *Server) Prepare() error {
	var err error
	if s.Port, err = s.Reserve(); err != nil {
		return err
	}
	s.Addr = Address(s.Port)
	return s.program.Configure()
}

// Reserve returns a port that nobody else is given until Stop.
func (s *Server) Reserve() (int, error) {
	port, release, err := Reserve()
	if err == nil {
		s.release = append(s.release, release)
	}
	return port, err
}

// Path is of a file in the server's folder.
func (s *Server) Path(name string) string { return filepath.Join(s.Dir, name) }

// Launch starts the process and waits until it serves.
func (s *Server) Launch() error {
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
	if s.process, err = Begin(cmd); err != nil {
		return err
	}
	return s.awaitReady(s.process)
}

func (s *Server) awaitReady(p *Process) error {
	ready := s.program.Ready(p.Pid())
	err := Until(func() (bool, error) {
		if p.Ended() {
			text := s.Log()
			if strings.Contains(text, "Address already in use") {
				return false, fmt.Errorf("%s: %w", s.Addr, errPortTaken)
			}
			return false, fmt.Errorf("%s has ended:\n%s", s.program.Name, text)
		}
		return ready()
	})
	if errors.Is(err, ErrSlow) {
		err = fmt.Errorf("%s does not answer:\n%s", s.program.Name, s.Log())
	}
	return err
}

// Start runs a server, with its data in a folder of the test's, that ends with the test.
func Start[S interface{ BelongTo(testing.TB) }, O any](t testing.TB, run func(dir string, opts ...O) (S, error), opts []O) S {
	t.Helper()
	s, err := run(t.TempDir(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	s.BelongTo(t)
	return s
}

// Each does something with all servers at once: of a cluster one alone does not serve.
func Each[S any](servers []S, do func(S) error) error {
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return errors.Join(errs...)
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
	switch {
	case s.process == nil:
	case s.program.Quit != nil && !s.process.Ended():
		s.process.end(s.program.Quit)
	default:
		s.process.Kill()
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
	return s.Launch()
}

// Pause stops the process with a signal, Resume lets it go on: its connections
// stay, and nobody answers on them.
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

// Log is the end of what the server has said.
func (s *Server) Log() string { return Tail(s.Path("log")) }

// Helper is that of the test, if there is one.
func (s *Server) Helper() {
	if s.t != nil {
		s.t.Helper()
	}
}

// Check ends the test if there is an error.
func (s *Server) Check(what string, err error) {
	if err != nil {
		s.Helper()
		s.Fail("%s: %v", what, err)
	}
}

// Fail ends the test, or panics if there is none.
func (s *Server) Fail(format string, args ...any) {
	text := s.program.Name + " on " + s.Addr + ": " + fmt.Sprintf(format, args...)
	if s.t == nil {
		panic(text)
	}
	s.t.Helper()
	s.t.Fatal(text)
}
