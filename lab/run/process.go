package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/lab/history"
	"github.com/interlock-go/interlock/lab/worker"
)

// A process is a worker: a copy of this program.
type process struct {
	r      *runner
	slot   int
	number int
	proc   *testserver.Process
	in     io.WriteCloser
	errors string // the path of what it writes there

	mu      sync.Mutex // one after the other replaces it
	repeats bool       // see worker.Task
}

// start starts a new worker in the slot. It does not wait until that works.
func (p *process) start() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	p.number = int(p.r.next.Add(1))
	other := p.r.other
	task, err := json.Marshal(worker.Task{
		Worker: p.number, URL: p.r.URL(p.slot), Other: other, Seed: p.r.Seed, Goroutines: p.r.Goroutines,
		Workloads: worker.Names(p.r.Options.Workloads, p.r.Cells,
			p.r.Units), TTL: p.r.TTL, Dir: p.r.Dir, Broken: p.r.Broken, Library: p.r.Library, Mixes: p.r.Mixes, Repeats: p.repeats,
	})
	if err != nil {
		return err
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), worker.Variable+"="+string(task))
	p.errors = filepath.Join(p.r.Dir, fmt.Sprintf("worker-%d.err", p.number))
	stderr, err := os.Create(p.errors)
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		p.in, err = cmd.StdinPipe()
	}
	if err == nil {
		p.proc, err = testserver.Begin(cmd)
	}
	if err != nil {
		return err
	}
	if p.number > p.r.Workers {
		return nil // one that takes the place of another: the backend may be disturbed
	}
	ready := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(out).ReadString('\n')
		ready <- err
	}()
	select {
	case err = <-ready:
	case <-time.After(busy.Bound(time.Minute)):
		err = errors.New("it does not begin to work")
	}
	if err != nil {
		return fmt.Errorf("worker %d: %w: %s", p.number, err, p.stderr())
	}
	return nil
}

// Kill kills it, and writes that down.
func (p *process) Kill() {
	p.r.event(history.Event{Kind: history.Killed, Worker: p.number})
	p.kill()
}

func (p *process) kill() {
	if p.proc != nil {
		p.proc.Kill()
	}
}

func (p *process) say(word string) { _, _ = fmt.Fprintln(p.in, word) }

// ended waits until it has ended.
func (p *process) ended(within time.Duration) bool {
	for end := time.Now().Add(within); !p.proc.Ended(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// stacks ends it, and returns where its goroutines stood.
func (p *process) stacks() string {
	_ = syscall.Kill(p.Pid(), syscall.SIGQUIT)
	p.ended(10 * time.Second)
	return p.stderr()
}

func (p *process) stderr() string {
	text, _ := os.ReadFile(p.errors)
	return string(text[:min(len(text), 20_000)])
}

// Slot and the rest are what faults do to it.
func (p *process) Slot() int     { return p.slot }
func (p *process) Number() int   { return p.number }
func (p *process) Pid() int      { return p.proc.Pid() }
func (p *process) Pause() error  { return p.proc.Pause() }
func (p *process) Resume() error { return p.proc.Resume() }

// Replace kills it, and starts another one.
func (p *process) Replace(repeats bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Kill()
	p.repeats = repeats
	return p.start()
}

// Busy lets it spin.
func (p *process) Busy(d time.Duration) { p.say(fmt.Sprint("busy ", int64(d))) }
