package flashsale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Strike is what happens to one worker between reading the stock and writing it, while it
// holds the lock.
type Strike string

const (
	NoStrike Strike = ""

	// Stop stops the worker (SIGSTOP) that is about to sell the last piece, past its lease,
	// until another worker has sold that piece, and then continues it. Not on Windows.
	Stop Strike = "stop"

	// Kill kills a worker when half of the stock is sold. Another takes its place. Lua has no
	// lock: there a consumer is killed that has written an order and not acknowledged it.
	Kill Strike = "kill"
)

// strikeTTL is the TTL of locks in a sale with a strike, unless the URL says another.
//
// A worker may be stopped while it writes to a SQLite file, which nobody else can write to until it
// goes on. So it breathes: it runs for a moment, and is stopped again. That is later than the
// default TTL, since it renews its lease then if it still has one. After stopLimit it goes on for
// good: some locks wait for it.
const (
	strikeTTL = 2 * time.Second
	breath    = 16 * time.Second
	stopLimit = 3 * breath
)

func (k Strike) check(s strategy, workers int) error {
	switch {
	case k == NoStrike:
	case k == Stop && !canStop:
		return errors.New("a process cannot be stopped on this system")
	case workers < 2:
		return fmt.Errorf("to %s a worker, at least 2 are needed", k)
	case !slices.Contains(s.struck, k):
		return fmt.Errorf("to %s a worker, the strategies are %s", k, strings.Join(k.strategies(), ", "))
	}
	return nil
}

// strategies are those that it can be shown with.
func (k Strike) strategies() []string {
	return slices.DeleteFunc(Strategies(), func(name string) bool { return !slices.Contains(strategies[name].struck, k) })
}

func (k Strike) ttl() time.Duration {
	if k == NoStrike {
		return 0
	}
	return strikeTTL
}

// at is the stock of the first item at which a worker is struck; 0 is never.
func (k Strike) at(stock int) int {
	switch k {
	case Stop:
		return 1
	case Kill:
		return (stock + 1) / 2
	}
	return 0
}

// struck is where a strike hits a worker, on its way from reading to writing. It has
// looked for the last time whether its lease stands: what it writes next is as if it
// were on its way already, so the context that it returns has no end. Another buyer may come there while the worker
// breathes, and begins again: a worker writes too late once.
func (s *shop) struck(ctx context.Context, item, left int) (context.Context, error) {
	if left != s.strike || item != 0 {
		return ctx, nil
	}
	if !s.between.TryLock() {
		return ctx, errBetween
	}
	defer s.between.Unlock()
	return context.WithoutCancel(ctx), s.midway()
}

var errBetween = errors.New("another buyer of this worker is between reading and writing")

// striking is a strike under way.
type striking struct {
	worker    *worker // that is or was struck
	since     time.Time
	stopped   bool // it has not gone on yet
	breaths   int
	breathing bool // it runs for a moment

	watching sync.WaitGroup
	cancel   context.CancelFunc
	mu       sync.Mutex
	after    time.Duration
}

// struck strikes the first worker that is midway; others go on.
func (r *rush) struck(ctx context.Context, w *worker) error {
	if r.strike.worker != nil {
		w.ask(request{Kind: goOn})
		return nil
	}
	r.strike.worker, r.strike.since = w, time.Now()
	if r.Strike == Stop {
		r.strike.stopped = true
		return stopProcess(w.process)
	}
	return r.kill(ctx, w)
}

// kill kills a worker, and measures the time until there is one more order. Whoever
// sells next needs the lock, so there is none in between. Nobody waits for a consumer.
func (r *rush) kill(ctx context.Context, w *worker) error {
	if r.strategy.redis {
		return w.kill()
	}
	before, err := r.db.orders(ctx)
	if err != nil {
		return err
	}
	r.strike.since = time.Now()
	if err := w.kill(); err != nil {
		return err
	}
	ctx, r.strike.cancel = context.WithCancel(ctx)
	r.strike.watching.Go(func() {
		for {
			n, err := r.db.orders(ctx)
			switch {
			case err != nil: // the sale ends, too
				return
			case n > before:
				r.strike.mu.Lock()
				defer r.strike.mu.Unlock()
				r.strike.after = time.Since(r.strike.since)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	return nil
}

// end stops watching.
func (k *striking) end() {
	if k.cancel != nil {
		k.cancel()
	}
	k.watching.Wait()
}

// next is the time from a kill to the next order; 0 if there was no kill. Every sale goes
// on after a kill, since a piece was not sold by it.
func (k *striking) next() float64 {
	k.watching.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.after.Seconds()
}

// relent lets a worker breathe that was stopped for long, from one call to the next, and go on at last.
func (r *rush) relent() error {
	k := &r.strike
	if !k.stopped {
		return nil
	}
	since := time.Since(k.since)
	switch {
	case since >= stopLimit:
		return r.goOn()
	case k.breathing:
		k.breathing = false
		return stopProcess(k.worker.process)
	case since >= time.Duration(k.breaths+1)*breath:
		k.breaths++
		k.breathing = true
		return continueProcess(k.worker.process)
	}
	return nil
}

// goOn continues a worker that is stopped.
func (r *rush) goOn() error {
	if !r.strike.stopped {
		return nil
	}
	r.strike.stopped = false
	r.result.Stopped = time.Since(r.strike.since).Seconds()
	if err := continueProcess(r.strike.worker.process); err != nil {
		return err
	}
	r.strike.worker.ask(request{Kind: goOn})
	return nil
}
