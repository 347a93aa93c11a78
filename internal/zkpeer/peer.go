// Package zkpeer runs lock clients of other languages against a ZooKeeper
// server, for tests and benchmarks: Curator in a JVM, kazoo in Python. Both do
// what they are told over a pipe, and both obey the same Go code.
//
// A peer is one process. It has sessions, which are clients with connections of
// their own, and a session has threads. What is done in one thread is done in
// order; threads do not wait for each other. A lock of Curator belongs to its
// thread. A peer is also its own first session, and a session its own first
// thread:
//
//	p := zkpeer.Curator(t, server.Addr)
//	err := p.Mutex("/stock").Acquire(ctx)
//	ok, err := p.Thread("b").Write("/config").TryAcquire(ctx, time.Second)
//	leader := p.Session("c").Latch("/leader", "c")
//
// Curator and kazoo use different names for their nodes. On one path their locks
// do not exclude each other: see LockPatterns.
//
// A peer ends with the test, at once: its sessions time out on the server. On
// Linux it also ends with the test process, however that ends; elsewhere when its
// pipe does.
//
// A call whose context ends kills the peer, since nobody knows any more what it
// holds. To give up waiting, use a timeout.
//
// The programs are compiled and run where they are needed, with what Debian's
// packages default-jdk-headless, libcurator-recipes-java and python3-kazoo bring.
package zkpeer

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Peer is a process with lock clients of another language. It is its own first
// session.
type Peer struct {
	*firstSession
	Dir string // its programs and its log

	what    string // Curator or kazoo
	process *process

	mu       sync.Mutex
	last     int64 // id of a request
	waiting  map[int64]chan answer
	sessions map[string]*Session
}

// Embedded under these names, they leave the names Session and Thread to methods.
type (
	firstSession = Session
	firstThread  = Thread
)

// Curator starts a JVM with Curator that ends with the test. Servers is a list
// of addresses, as Curator takes it. If the test fails, it shows what the JVM has
// said.
func Curator(t testing.TB, servers string, opts ...Option) *Peer {
	p, err := RunCurator(t.TempDir(), servers, opts...)
	return p.belongTo(t, err)
}

// Kazoo starts a Python with kazoo that ends with the test.
func Kazoo(t testing.TB, servers string, opts ...Option) *Peer {
	p, err := RunKazoo(t.TempDir(), servers, opts...)
	return p.belongTo(t, err)
}

func (p *Peer) belongTo(t testing.TB, err error) *Peer {
	testserver.OK(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.what, p.Log())
		}
	})
	return p
}

// RunCurator starts a JVM with Curator, its files in dir, which has to exist. The
// caller has to Kill it.
func RunCurator(dir, servers string, opts ...Option) (*Peer, error) {
	set := apply(opts)
	cmd, err := java(dir, set.flags, servers, set.timeout())
	if err != nil {
		return nil, err
	}
	return run("Curator", dir, cmd)
}

// RunKazoo starts a Python with kazoo, its files in dir, which has to exist. The
// caller has to Kill it.
func RunKazoo(dir, servers string, opts ...Option) (*Peer, error) {
	set := apply(opts)
	cmd, err := python(dir, append([]string{servers, set.timeout()}, set.patterns...)...)
	if err != nil {
		return nil, err
	}
	return run("kazoo", dir, cmd)
}

// slow is how long may pass until a peer is connected or has ended, and how long
// what does not wait may take.
const slow = 2 * time.Minute

// run returns once the first session is there.
func run(what, dir string, cmd *exec.Cmd) (*Peer, error) {
	p := &Peer{Dir: dir, what: what, waiting: map[int64]chan answer{}, sessions: map[string]*Session{}}
	p.firstSession = p.session("first")
	log, err := p.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	cmd.Dir, cmd.Stderr = dir, log
	if p.process, err = start(cmd, p.read); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), slow)
	defer cancel()
	if err := p.Call(ctx, "connect", nil, nil); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// Kill ends the peer with SIGKILL: its sessions stay until they time out.
func (p *Peer) Kill() { p.process.kill() }

// Pid is the process id.
func (p *Peer) Pid() int { return p.process.Pid() }

func (p *Peer) logPath() string { return filepath.Join(p.Dir, "log") }

func (p *Peer) openLog() (*os.File, error) {
	return os.OpenFile(p.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// note adds to the log what the peer has said in the wrong place.
func (p *Peer) note(text string) {
	if log, err := p.openLog(); err == nil {
		_, _ = log.WriteString(text)
		_ = log.Close()
	}
}

// Log is the end of what the peer has said.
func (p *Peer) Log() string { return testserver.Tail(p.logPath()) }

// Session is a client with a connection of its own. It is its own first thread.
type Session struct {
	*firstThread
	peer *Peer
	name string

	mu     sync.Mutex
	events []Event // that nobody has awaited
	more   chan struct{}
}

// Event is something that a session was told.
type Event struct {
	Name    string `json:"event"`
	Session string `json:"session"`
	Path    string `json:"path"`
}

// Revoked is the event that somebody asks for a lock back. It has the path of the lock.
const Revoked = "REVOKE"

// Thread does one thing after the other.
type Thread struct {
	session *Session
	name    string
}

// Session returns another session of the peer. It is opened when it is used first.
func (p *Peer) Session(name string) *Session { return p.session("session " + name) }

func (p *Peer) session(name string) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[name]
	if s == nil {
		s = &Session{peer: p, name: name, more: make(chan struct{})}
		s.firstThread = s.thread("first")
		p.sessions[name] = s
	}
	return s
}

// Thread returns another thread of the session.
func (s *Session) Thread(name string) *Thread { return s.thread("thread " + name) }

func (s *Session) thread(name string) *Thread { return &Thread{s, name} }

// Await waits for an event that nobody has awaited yet.
func (s *Session) Await(ctx context.Context, name string) (Event, error) {
	for {
		s.mu.Lock()
		i := slices.IndexFunc(s.events, func(e Event) bool { return e.Name == name })
		if i >= 0 {
			e := s.events[i]
			s.events = slices.Delete(s.events, i, i+1)
			s.mu.Unlock()
			return e, nil
		}
		all, more := slices.Clone(s.events), s.more
		s.mu.Unlock()
		select {
		case <-more:
		case <-s.peer.process.done:
			return Event{}, s.peer.gone("await " + name)
		case <-ctx.Done():
			return Event{}, fmt.Errorf("%s: no event %s among %v: %w", s.peer.what, name, all, context.Cause(ctx))
		}
	}
}

func (s *Session) happened(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	close(s.more)
	s.more = make(chan struct{})
}

// process is a child that is written to and read from by lines.
type process struct {
	*testserver.Process
	cmd  *exec.Cmd
	in   io.Writer
	done chan struct{} // closed when it has ended and all is read
}

// longest is how long a line may be: a contest answers with all its gaps.
const longest = 64 << 20

// start runs the command and hands each line that it says to read.
func start(cmd *exec.Cmd, read func(line []byte)) (*process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A pipe of the command would be closed when it ends, read or not.
	out, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = said
	child, err := testserver.Begin(cmd)
	_ = said.Close() // the process has its own
	if err != nil {
		_ = out.Close()
		return nil, err
	}
	p := &process{child, cmd, in, make(chan struct{})}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, longest)
		for lines.Scan() {
			read(lines.Bytes())
		}
		child.Kill() // whoever says nothing more is no use
		_ = out.Close()
		close(p.done)
	}()
	return p, nil
}

func (p *process) kill() {
	p.Kill()
	<-p.done
}

// Args are what an operation needs besides its name.
type Args map[string]any

// Error is what the library of the peer has raised.
type Error struct {
	Op   string
	Text string // the error's name, and what it says
}

func (e *Error) Error() string { return e.Op + ": " + e.Text }

// line is what a peer says: an answer or an event.
type line struct {
	answer
	ID int64 `json:"id"`
	Event
}

type answer struct {
	Value json.RawMessage `json:"value"`
	Error *string         `json:"error"`
}

// Call has the thread do an operation, and waits until it is done. The value goes
// into result, a pointer, unless that is nil. If ctx ends earlier, the peer is
// killed.
func (t *Thread) Call(ctx context.Context, op string, args Args, result any) error {
	p := t.session.peer
	request := maps.Clone(args)
	if request == nil {
		request = Args{}
	}
	request["op"], request["session"], request["thread"] = op, t.session.name, t.name
	got := make(chan answer, 1)
	if err := p.send(request, got); err != nil {
		return err
	}
	select {
	case a := <-got:
		return a.into(op, result)
	case <-p.process.done:
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s: %s: killed: %w", p.what, op, context.Cause(ctx))
	}
	select {
	case a := <-got: // the last that it has said
		return a.into(op, result)
	default:
		return p.gone(op)
	}
}

// brief calls what does not wait.
func (t *Thread) brief(op string, args Args, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), slow)
	defer cancel()
	return t.Call(ctx, op, args, result)
}

func (a answer) into(op string, result any) error {
	if a.Error != nil {
		return &Error{op, *a.Error}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.Value, result)
}

func (p *Peer) send(request Args, got chan answer) error {
	p.mu.Lock()
	p.last++
	request["id"] = p.last
	b, err := json.Marshal(request)
	if err != nil {
		p.mu.Unlock()
		return err
	}
	p.waiting[p.last] = got
	_, err = p.process.in.Write(append(b, '\n'))
	p.mu.Unlock()
	if err != nil {
		p.Kill() // the pipe is broken: it is about to end anyway
		return p.gone(fmt.Sprint(request["op"]))
	}
	return nil
}

// gone is the error of a peer that has ended by itself, or was killed.
func (p *Peer) gone(op string) error {
	return fmt.Errorf("%s: %s: the peer has ended (%v)\n%s", p.what, op, p.process.cmd.ProcessState, p.Log())
}

// read takes in what the peer says.
func (p *Peer) read(b []byte) {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		p.note(string(b) + "\n") // the last words of a JVM, for example
		return
	}
	if l.Event.Name != "" {
		p.session(l.Event.Session).happened(l.Event)
		return
	}
	p.mu.Lock()
	got := p.waiting[l.ID]
	delete(p.waiting, l.ID)
	p.mu.Unlock()
	if got != nil {
		got <- l.answer
	}
}

// Option changes how a peer is started.
type Option func(*settings)

type settings struct {
	session  time.Duration
	flags    []string // of the JVM
	patterns []string // of kazoo
}

func apply(opts []Option) settings {
	s := settings{session: 10 * time.Second, flags: testFlags}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

func (s settings) timeout() string { return strconv.FormatInt(s.session.Milliseconds(), 10) }

// SessionTimeout is what the peer asks the server for, ten seconds by default.
// The server may grant another one.
func SessionTimeout(d time.Duration) Option { return func(s *settings) { s.session = d } }

// Tests want a JVM that starts fast and leaves the machine to others, benchmarks
// one that is as fast as it is for its users.
var (
	testFlags      = []string{"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	benchmarkFlags = []string{"-Xmx1g", "-Xss512k"}
)

// Fast is for benchmarks: the JVM of Curator compiles as well as it can.
func Fast() Option { return func(s *settings) { s.flags = benchmarkFlags } }

// LockPatterns makes kazoo respect nodes with other names than its own: "-lock-"
// is the name that a mutex of Curator gives. They respect kazoo's as little as before.
func LockPatterns(patterns ...string) Option { return func(s *settings) { s.patterns = patterns } }
