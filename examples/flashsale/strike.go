package flashsale

import (
	"context"
	"time"
)

// strikeTTL is the TTL of locks in a sale with a strike, unless the URL says another.
//
// A worker may be stopped while it writes to a SQLite file, which nobody else can write to until it
// goes on. So it breathes: it runs for a moment, and is stopped again. That is later than the
// default TTL, since it renews its lease then if it still has one. After the third stop it goes on for
// good: some locks wait for it.
const (
	strikeTTL = 2 * time.Second
	breath    = 16 * time.Second
)

// watch strikes the first worker that is midway; others go on.
func (r *rush) watch(w *worker) (err error) {
	for w.Call("Worker.Midway", true, new(bool)) == nil {
		if r.struck.CompareAndSwap(false, true) {
			if r.Strike == Kill {
				return r.kill(w)
			}
			began := time.Now()
			err = breathe(r.ctx, r.sold, func() error { return stopProcess(w.cmd.Process) }, func() error { return continueProcess(w.cmd.Process) })
			r.result.Stopped = time.Since(began).Seconds()
		}
		_ = w.Call("Worker.GoOn", true, new(bool)) // if it has ended, its buyers hear of it
	}
	return err
}

// breathe stops a process until all is sold.
func breathe(ctx context.Context, sold <-chan struct{}, stop, goOn func() error) error {
	for range 3 {
		if err := stop(); err != nil {
			return err
		}
		over := true
		select {
		case <-ctx.Done():
		case <-sold:
		case <-time.After(breath):
			over = false
		}
		if err := goOn(); err != nil || over {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// kill kills a worker, and measures the time until there is one more order. Whoever
// sells that item next needs the lock, so there is none in between. Nobody waits for a consumer.
// Every sale goes on after a kill, since a piece was not sold by it.
func (r *rush) kill(w *worker) error {
	var before, n int
	count := func(n *int) error {
		return r.db.db.QueryRowContext(r.ctx, r.db.sql("SELECT count(*) FROM orders WHERE item = 0")).Scan(n)
	}
	if err := count(&before); err != nil {
		return err
	}
	w.killed.Store(true)
	began := time.Now()
	if err := w.cmd.Process.Kill(); err != nil || r.strategy.redis {
		return err
	}
	for n <= before {
		if err := count(&n); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	r.result.NextSale = time.Since(began).Seconds()
	return nil
}
