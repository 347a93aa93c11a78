package play

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/fence"
)

// workerVariable marks a process that was started as a worker, and has its job.
const workerVariable = "INTERLOCK_PLAY_WORKER"

// job is what a worker is started with.
type job struct {
	Number int
	Dir    string // of the locks, the stock, and the largest token that the stock has seen
}

func locks(dir string) string { return filepath.Join(dir, "locks.db") }

const (
	lockName = "demo/stock"
	ttl      = 3 * time.Second
)

// report is a line that a worker writes when something has happened.
type report struct {
	Step     step
	Token    uint64    // of its lease
	Seen     uint64    // the largest token that the stock has seen
	Deadline time.Time // of its lease
}

// step is what a worker does, or what has happened to it.
type step string

const (
	waits    step = "waits"
	holds    step = "holds"
	checked  step = "checked" // the stock knows the token, and refuses smaller ones
	renewed  step = "renewed"
	accepted step = "accepted"
	refused  step = "refused"
	lost     step = "lost"  // it knows that, and does not write
	still    step = "still" // no call is under way: it can be stopped
	cutOff   step = "cut"
	mended   step = "mended"
)

// The lines that the parent sends to a worker.
const (
	orderHalt = "halt" // become still, until
	orderGo   = "go"
	orderCut  = "cut" // lose the backend, until
	orderMend = "mend"
)

// WorkerMain is to be called early in main: in a process that [Start] has started it works and does not return. In
// others it does nothing.
func WorkerMain() {
	text := os.Getenv(workerVariable)
	if text == "" {
		return
	}
	signal.Ignore(os.Interrupt)
	w := &worker{orders: make(chan string, 1), goOn: make(chan struct{}, 1), out: json.NewEncoder(os.Stdout)}
	err := json.Unmarshal([]byte(text), &w.job)
	if err == nil {
		err = w.work(context.Background())
	}
	fmt.Fprintf(os.Stderr, "interlock ui --demo: worker %d: %v\n", w.Number, err)
	os.Exit(1)
}

// worker is the process that waits for the lock, works, and writes to the stock, over and over.
type worker struct {
	job
	gate   *gate
	orders chan string   // that come while it is not in line
	goOn   chan struct{} // after orderGo

	inLine sync.Mutex // held while an order takes effect at once
	waits  bool       // and does not go to orders

	writing sync.Mutex
	out     *json.Encoder
}

func (w *worker) tell(r report) {
	w.writing.Lock()
	defer w.writing.Unlock()
	if w.out.Encode(r) != nil {
		os.Exit(0) // the parent is gone
	}
}

func (w *worker) work(ctx context.Context) error {
	d, err := sqlitelock.New(ctx, locks(w.Dir))
	if err != nil {
		return err
	}
	w.gate = newGate(d)
	name := fmt.Sprintf("worker %d", w.Number)
	c, err := interlock.New(ctx, w.gate, interlock.TTL(ttl), interlock.Owner(fmt.Sprintf("%s, process %d", name, os.Getpid())))
	if err != nil {
		return err
	}
	lock := c.Mutex(lockName, interlock.Note(name))
	go w.obey()
	for {
		w.setWaits(true)
		w.tell(report{Step: waits})
		lease, err := lock.Acquire(ctx)
		if err != nil { // it was cut off for too long
			time.Sleep(ttl / 10)
			continue
		}
		w.setWaits(false)
		w.hold(ctx, lease)
		_ = lease.Release() // it may be lost, and was told so
	}
}

func (w *worker) setWaits(does bool) {
	w.inLine.Lock()
	defer w.inLine.Unlock()
	w.waits = does
}

// hold works under the lease and writes to the stock.
func (w *worker) hold(ctx context.Context, lease *interlock.Lease) {
	r := report{Step: holds, Token: lease.Token(), Deadline: lease.Deadline()}
	w.tell(r)
	fenced := fence.NewFile(filepath.Join(w.Dir, "token"))
	err := fenced.Check(ctx, lease) // from here on the stock refuses earlier holders
	if err == nil {
		r.Step, r.Seen = checked, r.Token
		w.tell(r)
		if !w.toWrite(lease, r) {
			r.Step = lost
			w.tell(r)
			return
		}
		err = fenced.Do(ctx, lease, func() error {
			return appendLine(filepath.Join(w.Dir, "stock"), fmt.Sprintf("%d %d\n", r.Token, w.Number))
		})
	}
	r.Step, r.Seen, r.Deadline = accepted, r.Token, lease.Deadline()
	var stale *fence.StaleError
	switch {
	case errors.As(err, &stale):
		r.Step, r.Seen = refused, stale.Seen
	case err != nil:
		fmt.Fprintf(os.Stderr, "interlock ui --demo: worker %d: %v\n", w.Number, err)
		return
	}
	w.tell(r)
}

// toWrite works for one to two seconds, and reports whether it is to write then: it has looked at its lease. A worker
// that is stopped after that look writes too late. One that is cut off works until its lease is lost.
func (w *worker) toWrite(lease *interlock.Lease, r report) bool {
	done := time.After(time.Second + rand.N(time.Second))
	look := time.NewTicker(ttl / 30)
	defer look.Stop()
	for {
		select {
		case <-lease.Done():
			return false
		case <-done:
			return lease.Err() == nil
		case order := <-w.orders:
			if w.follow(order); order == orderHalt {
				return true
			}
			done = nil
		case <-look.C:
			if d := lease.Deadline(); d.After(r.Deadline) {
				r.Step, r.Deadline = renewed, d
				w.tell(r)
			}
		}
	}
}

// obey reads what the parent orders. What comes while the worker holds, hold follows. It ends the process when the
// parent is gone.
func (w *worker) obey() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch order := lines.Text(); order {
		case orderGo:
			w.goOn <- struct{}{}
		case orderMend:
			w.gate.mend()
			w.tell(report{Step: mended})
		default:
			w.inLine.Lock()
			if w.waits {
				go func() { defer w.inLine.Unlock(); w.follow(order) }() // the next order ends it
				continue
			}
			w.inLine.Unlock()
			select {
			case w.orders <- order:
			default: // it has one already
			}
		}
	}
	os.Exit(0)
}

func (w *worker) follow(order string) {
	if order == orderCut {
		w.gate.cut()
		w.tell(report{Step: cutOff})
		return
	}
	w.gate.calls.Lock()
	defer w.gate.calls.Unlock()
	w.tell(report{Step: still})
	<-w.goOn
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}
