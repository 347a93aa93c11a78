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
	_ "github.com/interlock-go/interlock/backend/mysqllock"
	_ "github.com/interlock-go/interlock/backend/pglock"
	_ "github.com/interlock-go/interlock/backend/redislock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock" // the default of Config.URL
	_ "github.com/interlock-go/interlock/backend/zklock"

	"golang.org/x/sync/errgroup"
)

// workerVariable marks a process that was started as a worker.
const workerVariable = "INTERLOCK_FLASH_SALE_WORKER"

// connections is how many connections to the database a worker has.
const connections = 4

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
	last := message{Kind: done}
	retries, err := work(os.Stdin, say)
	if last.Retries = retries; err != nil {
		last = message{Kind: failed, Error: err.Error()}
	}
	if say(last) != nil || err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// work does one job and returns how many sales had to begin again.
func work(in io.Reader, say func(message) error) (retries int, err error) {
	var j job
	orders := json.NewDecoder(in)
	if err := orders.Decode(&j); err != nil {
		return 0, fmt.Errorf("read the job: %w", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)

	s := &shop{worker: j.Worker, work: j.Work, lock: j.Lock, items: j.Items}
	if s.store, err = openStore(ctx, j.Shop, connections); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.locks = func() (*interlock.Client, error) {
		s.client, err = interlock.Open(ctx, j.URL, interlock.Owner(fmt.Sprintf("flash sale, worker %d, process %d", j.Worker, os.Getpid())))
		return s.client, err
	}
	defer func() {
		if s.client != nil {
			err = errors.Join(err, s.client.Close())
		}
	}()
	sell, err := strategies[j.Strategy](s)
	if err != nil {
		return 0, err
	}
	if err := say(message{Kind: ready}); err != nil {
		return 0, err
	}
	if err := orders.Decode(&start{}); err != nil {
		return 0, fmt.Errorf("wait for the start: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel(errors.New("the parent process is gone"))
	}()

	buyers, ctx := errgroup.WithContext(ctx)
	for b := j.Worker - 1; b < j.Buyers; b += j.Workers {
		buyers.Go(func() error {
			for {
				sold, err := sell(ctx, b)
				// An order that was committed stands, even if the lock was lost then.
				if sold || err == nil {
					return say(message{Kind: answer, Buyer: b, Sold: sold})
				}
				if !another(err) || ctx.Err() != nil {
					return fmt.Errorf("buyer %d: %w", b, err)
				}
				s.retries.Add(1)
			}
		})
	}
	err = buyers.Wait()
	return int(s.retries.Load()), err
}
