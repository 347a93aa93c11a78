package run

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/lab/history"
	"github.com/interlock-go/interlock/lab/worker"
)

// A process is a worker: a copy of this program.
type process struct {
	*testserver.Process
	r      *runner
	slot   int
	number int
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
	task, err := json.Marshal(worker.Task{
		Worker: p.number, URL: p.r.URL(p.slot), Other: p.r.other, Seed: p.r.Seed, Goroutines: p.r.Goroutines,
		Workloads: p.r.Workloads, Rich: p.r.Rich, TTL: p.r.TTL, Dir: p.r.Dir, Broken: p.r.Broken,
		Library: p.r.Library, Mixes: p.r.Mixes, Repeats: p.repeats,
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
	if p.in, err = cmd.StdinPipe(); err == nil {
		p.Process, err = testserver.Begin(cmd)
	}
	return err
}

// Kill kills it, and writes that down.
func (p *process) Kill() {
	p.r.event(history.Event{Kind: history.Killed, Worker: p.number})
	p.Process.Kill()
}

func (p *process) say(word string) { _, _ = fmt.Fprintln(p.in, word) }

// ended waits until it has ended.
func (p *process) ended(within time.Duration) bool {
	for end := time.Now().Add(within); !p.Ended(); time.Sleep(5 * time.Millisecond) {
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
func (p *process) Slot() int   { return p.slot }
func (p *process) Number() int { return p.number }

// Replace kills it, and starts another one.
func (p *process) Replace(repeats bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Kill()
	p.repeats = repeats
	if err := p.start(); err != nil {
		panic(err)
	}
}

// Busy lets it spin.
func (p *process) Busy(d time.Duration) { p.say(fmt.Sprint("busy ", int64(d))) }
