// Package play is the play mode of the page, interlock ui --demo: a few worker processes compete for one lock in a
// SQLite file of their own, and visitors break them.
//
// # Words
//
//   - Worker: a process that waits for the lock, works, and writes to the stock with the token of its lease.
//   - Stock: the resource that the lock protects: a file that package fence guards.
//   - To strike: to crash a worker, to stop it, or to cut it off from the backend.
//   - Order: a line that a worker reads. Report: a line that it writes.
package play

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// workers is how many processes compete.
const workers = 4

// The strikes, and how long each lasts.
const (
	crash = "crash"
	halt  = "stop"
	cut   = "cut"

	crashed = 2 * time.Second
	stopped = ttl + 2*time.Second
	away    = ttl + 4*time.Second
)

// logged is how many writes are shown.
const logged = 20

// Play is the workers, and what they have reported.
type Play struct {
	dir     string
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	news    chan struct{} // closed at the next change
	workers [workers]*worked
	tokens  []uint64 // of all leases, in order
	seen    uint64   // the largest that the stock has seen
	counts  map[step]int
	writes  []write // the latest first
	next    string  // the strike for the next holder
}

// worked is a worker as its parent knows it.
type worked struct {
	Number   int
	Step     step
	Trouble  string // the strike that it suffers from
	Token    uint64
	Deadline time.Time
	Left     time.Duration // until the deadline, when the page was written last
	Process  *os.Process   // nil while there is none
	orders   io.Writer
}

// write is a piece of work, and what became of it.
type write struct {
	At          time.Time
	Worker      int
	Token, Seen uint64
	Result      step          // accepted, refused, lost; "" if the worker crashed
	Late        time.Duration // after the deadline
}

// Start starts the workers. They run until Close, and end with this process however it ends.
func Start() (*Play, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "interlock-demo-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Play{dir: dir, cancel: cancel, news: make(chan struct{}), counts: map[step]int{}}
	for i := range p.workers {
		w := &worked{Number: i + 1}
		p.workers[i] = w
		p.running.Go(func() {
			for ctx.Err() == nil {
				if err := p.run(ctx, exe, w); err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "interlock ui --demo:", err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(crashed):
				}
			}
		})
	}
	return p, nil
}

// URL names the backend of the workers.
func (p *Play) URL() string { return "sqlite:" + locks(p.dir) }

// Close ends the workers and removes their files. Clients of the backend are closed before.
func (p *Play) Close() error {
	p.cancel()
	p.running.Wait()
	return os.RemoveAll(p.dir)
}

// run runs a worker until its process has ended.
func (p *Play) run(ctx context.Context, exe string, w *worked) error {
	work, err := json.Marshal(job{w.Number, p.dir})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), workerVariable+"="+string(work))
	cmd.Stderr = os.Stderr
	apart(cmd)
	orders, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	reports, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.change(func() { *w = worked{Number: w.Number, Process: cmd.Process, orders: orders} })
	for in := json.NewDecoder(reports); ; {
		var r report
		if in.Decode(&r) != nil {
			break
		}
		p.change(func() { p.heard(w, r) })
	}
	_ = cmd.Wait() // it was killed
	p.change(func() {
		if w.Step == holds {
			p.wrote(w, report{Token: w.Token})
		}
		*w = worked{Number: w.Number, Trouble: crash}
	})
	return nil
}

// change changes what visitors see.
func (p *Play) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.news)
	p.news = make(chan struct{})
}

// heard takes a report.
func (p *Play) heard(w *worked, r report) {
	switch r.Step {
	case waits:
		w.Token = 0
		if w.Trouble != cut { // it knows that it has lost its lease
			w.Step = waits
		}
	case holds:
		w.Step, w.Token, w.Deadline = holds, r.Token, r.Deadline
		at, _ := slices.BinarySearch(p.tokens, r.Token)
		p.tokens = slices.Insert(p.tokens, at, r.Token)
		if do := p.next; do != "" && w.Trouble == "" {
			p.next = ""
			p.strike(w, do)
		}
	case checked:
		p.seen = max(p.seen, r.Seen)
	case renewed:
		w.Deadline = r.Deadline
	case accepted, refused, lost:
		w.Step = r.Step
		p.seen = max(p.seen, r.Seen)
		p.wrote(w, r)
		w.Token = 0
	case still:
		w.Trouble = halt
		_ = stop(w.Process) // it may have crashed
		p.later(w, stopped, orderGo)
	case cutOff:
		w.Trouble = cut
		p.later(w, away, orderMend)
	case mended:
		w.Trouble = ""
		if w.Step != holds {
			w.Step = waits
		}
	}
}

// later ends a strike. The process may have crashed, and another have taken its place.
func (p *Play) later(w *worked, d time.Duration, order string) {
	struck := *w
	time.AfterFunc(d, func() {
		if order == orderGo {
			p.change(func() {
				if w.Process == struck.Process {
					w.Trouble = ""
				}
			})
			_ = goOn(struck.Process)
		}
		_, _ = fmt.Fprintln(struck.orders, order)
	})
}

// wrote notes what became of a piece of work.
func (p *Play) wrote(w *worked, r report) {
	p.counts[r.Step]++
	late := time.Duration(0)
	if r.Step == refused {
		late = max(0, time.Since(w.Deadline))
	}
	p.writes = slices.Insert(p.writes, 0, write{time.Now(), w.Number, r.Token, r.Seen, r.Step, late})
	p.writes = p.writes[:min(len(p.writes), logged)]
}

// pick strikes a worker; 0: the holder, or the next one.
func (p *Play) pick(number int, do string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if number > 0 {
		p.strike(p.workers[number-1], do)
		return
	}
	for _, w := range p.workers {
		if w.Step == holds && w.Trouble == "" {
			p.strike(w, do)
			return
		}
	}
	p.next = do
}

func (p *Play) strike(w *worked, do string) {
	switch {
	case w.Process == nil:
	case do == crash:
		_ = w.Process.Kill()
	case w.Trouble != "": // it cannot hear
	case do == halt:
		_, _ = fmt.Fprintln(w.orders, orderHalt)
	default:
		_, _ = fmt.Fprintln(w.orders, orderCut)
	}
}

// place is which lease a token is of, counted from 1.
func (p *Play) place(token uint64) int {
	at, found := slices.BinarySearch(p.tokens, token)
	if !found {
		return 0
	}
	return at + 1
}
