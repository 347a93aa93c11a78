package flashsale

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/interlock-go/interlock"
)

// sale is a sale with one strategy.
type sale struct {
	Config
	strategy strategy
	name     string // of the strategy
	segments int    // of each item
	url      string // of the locks; empty if it has none
	dir      string
	number   int
	of       int
}

// String tells a sale from others with the same strategy.
func (s sale) String() string {
	label := s.name
	if s.name == "striped" {
		label += fmt.Sprintf(", %d", s.segments)
	}
	if scheme, _, _ := strings.Cut(s.url, ":"); scheme != "" && len(s.URLs) > 1 {
		label += ", " + scheme
	}
	return label
}

// rush is the buyers of a sale, and what they are told. Only the goroutine of run uses it, but for the strike.
type rush struct {
	sale
	ctx      context.Context
	job      job
	db       *store
	result   *Result
	workers  []*worker
	running  sync.WaitGroup
	done     chan *rpc.Call
	open     map[*rpc.Call]*worker // clicks without an answer
	answered map[int]bool          // buyers with an answer: whether one of them was that they have an order
	began    time.Time
	struck   atomic.Bool
	watching errgroup.Group
	sold     chan struct{} // closed when as many orders are told as there are pieces
}

func (s sale) run(ctx context.Context) (r Result, err error) {
	name := strings.ToLower(rand.Text()[:12]) // whoever else sells at the same place has another
	shop := place{File: filepath.Join(s.dir, fmt.Sprintf("%s-%d.db", s.name, s.number)), URL: s.Database, Sale: name, Loose: s.strategy.loose}
	db, err := openStore(shop)
	if err != nil {
		return r, err
	}
	if err := db.db.PingContext(ctx); err != nil {
		return r, errors.Join(err, db.db.Close())
	}
	defer func() { err = errors.Join(err, db.remove(ctx)) }()
	var parts []int
	for _, stock := range divide(s.Stock, s.Items) {
		parts = append(parts, cut(stock, s.segments)...)
	}
	if err := db.fill(ctx, parts); err != nil {
		return r, fmt.Errorf("make the tables in %s: %w", redacted(cmp.Or(s.Database, fileURL("sqlite", shop.File))), err)
	}
	var queue *counter
	if s.strategy.redis {
		if queue, err = openCounter(s.url, name); err != nil {
			return r, err
		}
		defer queue.Close()
		defer func() { err = errors.Join(err, queue.remove(ctx)) }()
		if err := queue.fill(ctx, parts); err != nil {
			return r, fmt.Errorf("make the keys in %s: %w", redacted(s.url), err)
		}
	}
	r = Result{
		Strategy: s.name, Label: s.String(), Stock: s.Stock, Buyers: s.Buyers, Workers: s.Workers,
		URL: redacted(s.url), Items: s.Items, Segments: s.segments, Strike: s.Strike,
	}
	rush := &rush{
		sale: s, db: db, result: &r, done: make(chan *rpc.Call, 3*s.Buyers), sold: make(chan struct{}),
		open: map[*rpc.Call]*worker{}, answered: map[int]bool{}, workers: make([]*worker, s.Workers),
		job: job{Strategy: s.name, Items: s.Items, Segments: s.segments, Shop: shop, URL: s.url, Lock: "flash-sale/" + name, TTL: interlock.DefaultTTL},
	}
	switch s.Strike {
	case Stop:
		rush.job.TTL, rush.job.Strike = strikeTTL, 1
	case Kill:
		rush.job.TTL, rush.job.Strike = strikeTTL, (parts[0]+1)/2
	}
	if err := rush.conduct(ctx); err != nil {
		if queue != nil && ctx.Err() == nil {
			err = cmp.Or(queue.answers(ctx), err)
		}
		return r, err
	}
	if queue != nil {
		if r.Differences, err = queue.differences(ctx, db); err != nil {
			return r, err
		}
	}
	return r, db.audit(ctx, &r, rush.answered)
}

// conduct lets all buyers click, every fifth twice, at two workers, and returns when the workers have served
// them and ended. If a worker is struck, each clicks once, so that its buyer does not get the last piece
// elsewhere meanwhile.
func (r *rush) conduct(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	r.ctx = ctx
	defer func() {
		cancel() // which kills who is still there
		r.running.Wait()
		_ = r.watching.Wait()
	}()
	var hired errgroup.Group
	for n := range r.workers {
		hired.Go(func() error { return r.hire(n) })
	}
	if err := hired.Wait(); err != nil {
		return err
	}
	r.began = time.Now()
	for buyer := range r.Buyers {
		r.click(buyer, buyer)
		if buyer%5 == 4 && r.Strike == NoStrike {
			r.click(buyer, buyer+1)
		}
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for len(r.open) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			r.report(false)
		case call := <-r.done:
			if err := r.answer(call); err != nil {
				return err
			}
		}
	}
	r.result.Seconds = time.Since(r.began).Seconds()
	for _, w := range r.workers {
		var c consumed
		if err := w.failed(w.Call("Worker.Close", true, &c)); err != nil && !w.killed.Load() {
			return err
		}
		_ = w.Client.Close()
		r.result.TakenOver += c.TakenOver
		r.result.Repeated += c.Repeated
		r.result.Written = max(r.result.Written, c.Written.Sub(r.began.Round(0)).Seconds())
	}
	r.report(true)
	return r.watching.Wait()
}

// click is a buyer's, at the worker whose turn it is.
func (r *rush) click(buyer, turn int) {
	w := r.workers[turn%r.Workers]
	r.open[w.Go("Worker.Sell", buyer, new(answer), r.done)] = w
}

// answer is a worker's. Of every seventh buyer the first one gets lost on its way, so that
// the buyer asks another worker.
func (r *rush) answer(call *rpc.Call) error {
	w, buyer, a := r.open[call], call.Args.(int), call.Reply.(*answer)
	delete(r.open, call)
	switch {
	case call.Error != nil && w.killed.Load(): // another takes its place
		if r.workers[w.number] == w {
			if err := r.hire(w.number); err != nil {
				return err
			}
		}
		r.click(buyer, w.number)
		return nil
	case call.Error != nil:
		return w.failed(fmt.Errorf("buyer %d: %w", buyer, call.Error))
	}
	r.result.Retries += a.Retries
	r.result.Refused += a.Refused
	if a.New {
		r.result.times = append(r.result.times, time.Since(r.began))
		if len(r.result.times) == r.Stock {
			close(r.sold)
		}
	}
	if _, again := r.answered[buyer]; buyer%7 == 6 && !again {
		r.answered[buyer] = false
		r.click(buyer, w.number+1)
	} else {
		r.answered[buyer] = r.answered[buyer] || a.Sold
	}
	return nil
}

func (r *rush) report(done bool) {
	p := Progress{Strategy: r.String(), Number: r.number, Of: r.of, Buyers: r.Buyers, Orders: len(r.result.times), Served: len(r.answered), Done: done}
	if !r.began.IsZero() {
		p.Elapsed = time.Since(r.began)
	}
	r.Progress(p)
}

// worker is one process.
type worker struct {
	*rpc.Client
	number int // from 0
	cmd    *exec.Cmd
	ended  chan struct{}
	end    error        // then
	last   bytes.Buffer // what it has written to its standard error, then
	killed atomic.Bool  // its end is meant
}

// pipes are a worker's standard output and input.
type pipes struct {
	io.Reader
	io.WriteCloser
}

// hire starts the worker with that number.
func (r *rush) hire(number int) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	w := &worker{number: number, cmd: exec.CommandContext(r.ctx, exe), ended: make(chan struct{})}
	out, said := io.Pipe()
	w.cmd.Args[0] = os.Args[0] // a program may go by the name it was called by
	w.cmd.Env = append(os.Environ(), workerVariable+"=1")
	w.cmd.WaitDelay = 5 * time.Second
	w.cmd.Stderr, w.cmd.Stdout = &w.last, said
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := w.cmd.Start(); err != nil {
		return fmt.Errorf("start worker %d: %w", number+1, err)
	}
	r.running.Go(func() {
		w.end = w.cmd.Wait()
		close(w.ended)
		said.Close()
	})
	w.Client = rpc.NewClient(pipes{out, in})
	r.workers[number] = w
	j := r.job
	j.Worker = number + 1
	if err := w.failed(w.Call("Worker.Open", j, new(bool))); err != nil {
		return err
	}
	if r.Strike != NoStrike {
		r.watching.Go(func() error { return r.watch(w) })
	}
	return nil
}

// failed says which worker has failed, and how it has ended if it has.
func (w *worker) failed(err error) error {
	if err == nil {
		return nil
	}
	if answered := rpc.ServerError(""); !errors.As(err, &answered) {
		_ = w.Client.Close()
		<-w.ended
		err = fmt.Errorf("%w: %w\n%s", err, cmp.Or(w.end, errors.New("it ended before it was done")), bytes.TrimSpace(w.last.Bytes()))
	}
	return fmt.Errorf("worker %d (process %d): %w", w.number+1, w.cmd.Process.Pid, err)
}
