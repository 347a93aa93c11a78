package zkpeer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	t.Helper()
	p, err := RunCurator(t.TempDir(), servers, opts...)
	return p.belongTo(t, err)
}

// Kazoo starts a Python with kazoo that ends with the test.
func Kazoo(t testing.TB, servers string, opts ...Option) *Peer {
	t.Helper()
	p, err := RunKazoo(t.TempDir(), servers, opts...)
	return p.belongTo(t, err)
}

func (p *Peer) belongTo(t testing.TB, err error) *Peer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
