// Package testserver starts real servers for tests and benchmarks, and disturbs them and the connections to them.
//
// A [Server] is a port, a folder and a process, which is started when [Program] says that it is ready, and can be
// killed, paused and started again. A [Proxy] disturbs connections; an [Interceptor] also loses, drops or holds back
// messages. A [Group] is servers that work together. The packages redistest, zktest, etcdtest, pgtest and mysqltest
// each describe a program as a [Kind], with its options, and add what only its servers can do. Each has Start and Run,
// and the options Config (Flag of etcd) and TLS:
//
//	           ready when it                   options                          groups             proxy, faults
//	redistest  answers PING, and its own PID   Durable Users Replicas FakeTime  cluster, Sentinel  LoseReplies, DropPushes
//	zktest     names its data, and has a mode  Durable JVM Tick MaxBuffer       ensemble           Hold, Lose, Observe, Freeze
//	etcdtest   is healthy                      Of                               cluster            SetClock, StickDisk
//	pgtest     says so in postmaster.pid       Durable Setup Passwords FakeTime standby, pooler    DropNotifications
//	mysqltest  has its own PID in server.pid   Synced Lazy                      replica            KillConnections
//
// All servers listen on free ports of the loopback interface only, keep their data in a temporary folder, and end with
// the test; on Linux also with the test process, however that ends. Methods that return no error end the test if they
// fail, or panic where there is no test.
package testserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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

	// Options set these before Run.
	Lines  []string       // of the configuration
	Secure bool           // TLS only: Certify comes before Configure
	Offset *time.Duration // FakeTime with this comes before Configure

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

// Kind is how a server of a kind is made, which does not run yet, with its data in dir. An option changes it then.
type Kind[S Runner] func(dir string) S

// New makes a server that does not run yet.
func (k Kind[S]) New(dir string, opts ...func(S)) S {
	s := k(dir)
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Start starts a server that ends with the test.
func (k Kind[S]) Start(t testing.TB, opts ...func(S)) S {
	s := k.New(t.TempDir(), opts...)
	Start(t, s)
	return s
}

// Run starts a server with its data in dir, which has to exist. The caller has to Stop it.
func (k Kind[S]) Run(dir string, opts ...func(S)) (S, error) {
	s := k.New(dir, opts...)
	return s, s.Run()
}

// A Runner is a server, of any kind, that does not run yet.
type Runner interface {
	BelongTo(testing.TB)
	Run() error
}

// Start runs servers, all at once: of a cluster one alone does not serve. They end with the test.
func Start[S Runner](t testing.TB, servers ...S) {
	for _, s := range servers {
		s.BelongTo(t)
	}
	OK(t, Each(servers, func(s S) error { return s.Run() }))
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
	steps := []func() error{s.launch}
	if s.program.Configure != nil {
		steps = []func() error{s.program.Configure, s.launch}
	}
	if s.Offset != nil {
		steps = slices.Insert(steps, 0, s.fakeTime)
	}
	if s.Secure {
		steps = slices.Insert(steps, 0, s.Certify)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			s.Stop()
			return err
		}
	}
	return nil
}

// Write writes a file of lines into the server's folder.
func (s *Server) Write(name string, lines ...string) error {
	return os.WriteFile(s.Path(name), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// Output runs a program, and returns what it has written to its standard output; an error has all that it has written.
func Output(cmd *exec.Cmd) (string, error) {
	var out, failed strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s%s", filepath.Base(cmd.Path), err, out.String(), strings.TrimSpace(failed.String()))
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// A Group is servers that work together.
type Group[S interface {
	Again(meanwhile func() error) error
	Check(what string, err error)
	Address() string
}] struct{ Servers []S }

// Restart starts servers again, all at once, with their data, and waits until they serve. Those that still run end in
// good order before.
func (g Group[S]) Restart(servers ...S) {
	g.Servers[0].Check("restart", Each(servers, func(s S) error { return s.Again(nil) }))
}

// Addrs are the addresses of all.
func (g Group[S]) Addrs() (all []string) {
	for _, s := range g.Servers {
		all = append(all, s.Address())
	}
	return all
}

// Address is Addr.
func (s *Server) Address() string { return s.Addr }

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
// stay, and nothing answers on them. A process that has ended meanwhile stays ended.
func (s *Server) Pause() { s.signal("pause", s.running().Pause()) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal("resume", s.running().Resume()) }

func (s *Server) signal(what string, err error) {
	if !errors.Is(err, os.ErrProcessDone) {
		s.Check(what, err)
	}
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
	err = fmt.Errorf("%s on %s: %s: %w", s.program.Name, s.Addr, what, err)
	if s.t == nil {
		panic(err)
	}
	s.t.Helper()
	OK(s.t, err)
}

// OK ends the test if there is an error, and names the line of the test that has called, by itself or by helpers.
func OK(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for f, more := frames.Next(); more; f, more = frames.Next() {
		if strings.HasSuffix(f.File, "_test.go") {
			t.Fatalf("%v\n\tat %s:%d", err, filepath.Base(f.File), f.Line)
			return
		}
	}
	t.Fatal(err)
}

// Await waits until there is a result or an error, and ends the test then.
func (s *Server) Await(what string, ready func() (bool, error)) { s.Check(what, Until(ready)) }

// A Lender has servers for tests that do nothing to them but talk to them: to start one costs more than most of these
// tests do. Each test has a server for itself, without anything on it.
type Lender[S interface {
	Stop()
	Log() string
}] struct {
	Run   func(dir string) (S, error)
	Clean func(S) error // removes what the test has left; a server with which it fails is not lent again

	mu   sync.Mutex
	dir  string // of all
	idle []S    // no test has them
}

// Lend lends a server until the test ends. If the test fails, it shows the server's log.
func (l *Lender[S]) Lend(t testing.TB) S {
	s, err := l.take()
	OK(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.Log())
		} else if err := l.Clean(s); err != nil {
			t.Logf("the server is not lent again: %v", err)
		} else {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.idle = append(l.idle, s)
			return
		}
		s.Stop()
	})
	return s
}

func (l *Lender[S]) take() (s S, err error) {
	l.mu.Lock()
	if n := len(l.idle); n > 0 {
		s, l.idle = l.idle[n-1], l.idle[:n-1]
		l.mu.Unlock()
		return s, nil
	}
	l.mu.Unlock()
	dir, err := os.MkdirTemp(l.dir, "")
	if err != nil {
		return s, err
	}
	return l.Run(dir)
}

// Around is what TestMain has to run instead of m: the servers end with the tests.
func (l *Lender[S]) Around(m *testing.M) Lending { return Lending{m, l.begin} }

// Lending runs tests among which servers are lent.
type Lending struct {
	m     *testing.M
	begin func() (end func())
}

// Run runs them.
func (l Lending) Run() int {
	defer l.begin()()
	return l.m.Run()
}

func (l *Lender[S]) begin() (end func()) {
	dir, err := os.MkdirTemp("", "lent-")
	if err != nil {
		panic(err)
	}
	l.dir = dir
	return func() {
		for _, s := range l.idle {
			s.Stop()
		}
		_ = os.RemoveAll(dir)
	}
}

// fakeTime lets a server that does not run yet see a wall clock of its own, which runs beside the true one by its
// Offset, and which StepClock steps while the server runs. Its steady clock stays true. It works on Linux, with a C
// compiler, for programs that call the C library: for those of Go there is SetWallClock.
func (s *Server) fakeTime() (err error) {
	if s.clock, err = newClock(s.Dir); err != nil {
		return fmt.Errorf("a wall clock for the server: %w", err)
	}
	s.clock.step(*s.Offset)
	return nil
}

// StepClock adds d to the wall clock of a server with an Offset. A Restart keeps it.
func (s *Server) StepClock(d time.Duration) {
	if s.clock == nil {
		s.Check("step the clock", errors.New("the server was started without a clock of its own"))
	}
	s.clock.step(d)
}
