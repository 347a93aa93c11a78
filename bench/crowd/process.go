package crowd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// Variable has a program that calls [Member] be one process of a crowd.
const Variable = "INTERLOCK_BENCH_CROWD"

// task is what one process does.
type task struct {
	URL       string
	Number    int
	Waiters   int
	GivingUp  float64
	Patience  time.Duration
	TTL, Time time.Duration
}

// report is what a process has counted since the last one.
type report struct {
	Ready, Ended bool
	Grants       []grant
	GaveUp       int
	Lost         int
	Failed       int
	Said         []string
}

// grant is the time in which one waiter had the lock, by the clock that all
// processes of a machine share. It ends just before the release.
type grant struct{ From, To int64 }

// process is a member of the crowd as the measuring program sees it.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser // the member ends when it is closed
	ready chan struct{}
	ended chan struct{}

	mu  sync.Mutex
	all report
}

func startProcess(t task) (*process, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self), ready: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), Variable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		for d := json.NewDecoder(bufio.NewReader(out)); ; {
			var r report
			if d.Decode(&r) != nil {
				break
			}
			p.take(r)
		}
		_ = p.cmd.Wait() // what it did is in its reports
	}()
	return p, nil
}

func (p *process) take(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Ready && !p.all.Ready {
		close(p.ready)
	}
	p.all.Ready, p.all.Ended = p.all.Ready || r.Ready, p.all.Ended || r.Ended
	p.all.Grants = append(p.all.Grants, r.Grants...)
	p.all.GaveUp += r.GaveUp
	p.all.Lost += r.Lost
	p.all.Failed += r.Failed
	for _, s := range r.Said {
		if !slices.Contains(p.all.Said, s) {
			p.all.Said = append(p.all.Said, s)
		}
	}
}

func (p *process) begin() { _, _ = fmt.Fprintln(p.in, "go") }

// finished reports whether it has said that it is through.
func (p *process) finished() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Ended
}

func (p *process) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Said
}

// kill ends the process, unless it has ended.
func (p *process) kill() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	<-p.ended
}
