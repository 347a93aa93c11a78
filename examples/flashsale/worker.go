package flashsale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/etcdlock"
	_ "github.com/interlock-go/interlock/backend/filelock"
	_ "github.com/interlock-go/interlock/backend/mysqllock"
	_ "github.com/interlock-go/interlock/backend/pglock"
	_ "github.com/interlock-go/interlock/backend/redislock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock" // the default of Config.URL
	_ "github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/fence"

	"golang.org/x/sync/errgroup"
)

// workerVariable marks a process that was started as a worker.
const workerVariable = "INTERLOCK_FLASH_SALE_WORKER"

// connections is how many connections to the database a worker has.
const connections = 4

// atOnce is how many buyers a worker serves at once. Others wait until one of them is
// served, so that not all that come to one worker are in line before all that come to
// the next.
const atOnce = 8

// WorkerMain is to be called first thing in main (and in TestMain): in a process
// that [Run] has started it sells and does not return. In others it does
// nothing.
func WorkerMain() {
	if os.Getenv(workerVariable) == "" {
		return
	}
	// A Ctrl-C at the terminal reaches the workers too; the parent decides.
	signal.Ignore(os.Interrupt)
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(m message) error {
		mu.Lock()
		defer mu.Unlock()
		return out.Encode(m)
	}
	last, err := work(os.Stdin, say)
	if err != nil {
		last = message{Kind: failed, Error: err.Error()}
	}
	if say(last) != nil || err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// work does one job and returns the last message.
func work(in io.Reader, say func(message) error) (last message, err error) {
	requests := json.NewDecoder(in)
	var j job
	if err := requests.Decode(&j); err != nil {
		return last, fmt.Errorf("read the job: %w", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)

	proceed := make(chan struct{}, 1)
	strategy := strategies[j.Strategy]
	s := &shop{loose: strategy.loose, redis: strategy.redis, worker: j.Worker, work: j.Work, lock: j.Lock, items: j.Items, segments: j.Segments, strike: j.Strike}
	s.midway = func() error {
		if err := say(message{Kind: midway}); err != nil {
			return err
		}
		select {
		case <-proceed:
			return nil
		case <-ctx.Done():
			return ended(ctx)
		}
	}
	s.written = func() error { return say(message{Kind: written}) }
	if s.store, err = openStore(ctx, j.Shop, connections); err != nil {
		return last, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.locks = func() (*interlock.Client, error) {
		options := []interlock.ClientOption{interlock.Owner(fmt.Sprintf("flash sale, worker %d, process %d", j.Worker, os.Getpid()))}
		if j.TTL > 0 {
			options = append(options, interlock.TTL(j.TTL))
		}
		s.client, err = interlock.Open(ctx, j.URL, options...)
		return s.client, err
	}
	defer func() {
		if s.client != nil {
			err = errors.Join(err, s.client.Close())
		}
	}()
	s.counters = func() (*counter, error) {
		s.counter, err = openCounter(j.URL, j.Shop.Sale)
		return s.counter, err
	}
	defer func() {
		if s.counter != nil {
			s.counter.close()
		}
	}()
	sell, err := strategy.open(s)
	if err != nil {
		return last, err
	}
	if err := say(message{Kind: ready}); err != nil {
		return last, err
	}

	asked, closing := make(chan request), make(chan struct{})
	go func() { // as long as the process
		closed := false
		for {
			var r request
			if err := requests.Decode(&r); err != nil {
				cancel(fmt.Errorf("the parent process is gone: %w", err))
				return
			}
			switch {
			case r.Kind == click:
				asked <- r
			case r.Kind == goOn:
				proceed <- struct{}{}
			case r.Kind == shut && !closed:
				closed = true
				close(closing)
			}
		}
	}()
	clicks, ctx := errgroup.WithContext(ctx)
	clicks.Go(func() error {
		seats := make(chan struct{}, atOnce)
		for {
			select {
			case <-ctx.Done():
				return ended(ctx)
			case <-closing:
				return nil
			case r := <-asked:
				clicks.Go(func() error {
					seats <- struct{}{}
					defer func() { <-seats }()
					a, err := s.serve(ctx, sell, r.Buyer)
					if err != nil {
						return fmt.Errorf("buyer %d: %w", r.Buyer, err)
					}
					a.Click = r.Click
					return say(a)
				})
			}
		}
	})
	if s.beside != nil {
		clicks.Go(func() error { return s.beside(ctx, closing) })
	}
	err = clicks.Wait()
	return message{
		Kind: done, Retries: int(s.retries.Load()), Refused: int(s.refused.Load()),
		TakenOver: int(s.takenOver.Load()), Repeated: int(s.repeated.Load()),
	}, err
}

// serve serves a buyer until there is an answer. One who has an order is told so again, and
// one who comes when all is sold waits for nobody.
func (s *shop) serve(ctx context.Context, sell sell, buyer int) (message, error) {
	for {
		o := order{buyer: buyer, worker: s.worker, item: buyer % s.items}
		left, err := s.leftFor(ctx, o)
		sold := false
		if err == nil && left > 0 {
			sold, err = sell(ctx, o)
		}
		switch {
		case sold: // An order that was committed stands, even if the lock was lost then.
			return message{Kind: answer, Sold: true, New: true}, nil
		case errors.Is(err, errHasOne):
			return message{Kind: answer, Sold: true}, nil
		case err == nil && (s.loose || s.redis):
			return message{Kind: answer}, nil
		case err == nil:
			// Nothing is left, but an earlier click may have got a piece.
			has, err := s.hasOne(ctx, buyer)
			return message{Kind: answer, Sold: has}, err
		case !another(err) || ctx.Err() != nil:
			return message{}, err
		}
		s.retries.Add(1)
		if errors.Is(err, fence.ErrStale) {
			s.refused.Add(1)
		}
	}
}

// leftFor reads in the database how many pieces a buyer may get one of. Where the stock is in
// Redis there may be some: its script looks itself.
func (s *shop) leftFor(ctx context.Context, o order) (int, error) {
	if s.redis {
		return 1, nil
	}
	return s.left(ctx, o.item, s.segments)
}
