package flashsale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/etcdlock"
	_ "github.com/interlock-go/interlock/backend/filelock"
	_ "github.com/interlock-go/interlock/backend/mysqllock"
	_ "github.com/interlock-go/interlock/backend/pglock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock" // the default of Config.URLs
	_ "github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/fence"
)

// A worker serves its parent's calls (net/rpc) on its standard input and output. These types have no name of
// their own since net/rpc takes no unexported ones.
type (
	// job is what the parent opens a worker with.
	job = struct {
		Strategy        string
		Worker          int // from 1
		Items, Segments int // segments of each item
		Shop            place
		URL, Lock       string        // where its locks are, and what their names begin with
		TTL             time.Duration // of the locks
		Strike          int           // the stock at which a worker is struck; 0: none is
	}

	// answer is what a buyer is told: that there is an order, and that it is of this click. It says how often the sale had
	// to begin again, and how often because of a token.
	answer = struct {
		Sold, New        bool
		Retries, Refused int
	}

	// consumed is what a consumer has done: when the last order of the Stream was written is with it.
	consumed = struct {
		TakenOver, Repeated int
		Written             time.Time
	}
)

// workerVariable marks a process that was started as a worker.
const workerVariable = "INTERLOCK_FLASH_SALE_WORKER"

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
	signal.Ignore(os.Interrupt) // A Ctrl-C at the terminal reaches the workers too; the parent decides.
	server := rpc.NewServer()
	if err := server.RegisterName("Worker", &shop{seats: make(chan struct{}, atOnce), midway: make(chan bool), goOn: make(chan bool)}); err != nil {
		panic(err)
	}
	server.ServeConn(stdio{os.Stdout})
	os.Exit(0)
}

// stdio is the pipes to the parent. If it is gone, or wants no more, this process ends.
type stdio struct{ io.WriteCloser }

func (stdio) Read(p []byte) (int, error) {
	n, err := os.Stdin.Read(p)
	if err != nil {
		os.Exit(0)
	}
	return n, err
}

// shop is what a worker has to sell with.
type shop struct {
	job
	strategy
	*store
	own      []sync.Mutex      // for each item: of local
	client   *interlock.Client // nil without locks
	counter  *counter          // nil unless it sells in Redis
	shut     atomic.Bool       // no buyer comes any more
	consumer chan error        // the end of the consumer
	consumed                   // by it
	seats    chan struct{}
	midway   chan bool  // a buyer waits between reading and writing, until
	goOn     chan bool  // this
	between  sync.Mutex // of the buyer who is midway
}

// Open is called before the first buyer comes.
func (s *shop) Open(j job, _ *bool) (err error) {
	ctx := context.Background()
	s.job, s.strategy, s.own = j, strategies[j.Strategy], make([]sync.Mutex, j.Items)
	if s.store, err = openStore(j.Shop); err != nil {
		return err
	}
	if s.locks {
		owner := interlock.Owner(fmt.Sprintf("flash sale, worker %d, process %d", j.Worker, os.Getpid()))
		if s.client, err = interlock.Open(ctx, j.URL, owner, interlock.TTL(j.TTL)); err != nil {
			return err
		}
	}
	if s.redis {
		if s.counter, err = openCounter(j.URL, j.Shop.Sale); err != nil {
			return err
		}
		s.consumer = make(chan error, 1)
		go func() { s.consumer <- s.consume(ctx) }()
	}
	return nil
}

// Sell serves a buyer until there is an answer. One who has an order is told so again, and
// one who comes when all is sold waits for nobody.
func (s *shop) Sell(buyer int, a *answer) (err error) {
	s.seats <- struct{}{}
	defer func() { <-s.seats }()
	ctx := context.Background()
	o := order{buyer: buyer, worker: s.Worker, item: buyer % s.Items}
	for {
		left := 1
		if !s.redis { // whose script looks itself
			const query = "SELECT sum(stock) FROM items WHERE id >= ? AND id < ?"
			err = s.db.QueryRowContext(ctx, s.sql(query), o.item*s.Segments, (o.item+1)*s.Segments).Scan(&left)
		}
		if err == nil && left <= 0 {
			err = errSoldOut
		} else if err == nil {
			err = s.sell(ctx, s, o)
		}
		switch {
		case err == nil:
			a.Sold, a.New = true, true
			return nil
		case errors.Is(err, errHasOne):
			a.Sold = true
			return nil
		case errors.Is(err, errSoldOut) && (s.loose || s.redis):
			return nil
		case errors.Is(err, errSoldOut): // An earlier click may have got a piece.
			_, a.Sold, err = s.done.Lookup(ctx, s.db, s.key(buyer))
			return err
		case !another(err):
			return err
		}
		a.Retries++
		if errors.Is(err, fence.ErrStale) {
			a.Refused++
		}
	}
}

// Midway returns when a buyer is midway, who waits until GoOn.
func (s *shop) Midway(bool, *bool) error {
	<-s.midway
	return nil
}

func (s *shop) GoOn(bool, *bool) error {
	s.goOn <- true
	return nil
}

// struck is where a strike hits a worker, on its way from reading to writing. Another buyer may come there while
// the worker breathes, and begins again: a worker writes too late once.
func (s *shop) struck(item, left int) (bool, error) {
	if left != s.Strike || item != 0 {
		return false, nil
	}
	if !s.between.TryLock() {
		return false, errBetween
	}
	defer s.between.Unlock()
	s.midway <- true
	<-s.goOn
	return true, nil
}

// Close is called after the last buyer has an answer.
func (s *shop) Close(_ bool, c *consumed) (err error) {
	if s.redis {
		s.shut.Store(true)
		err = <-s.consumer
		*c = s.consumed
		s.counter.Close()
	}
	if s.locks {
		err = errors.Join(err, s.client.Close())
	}
	return errors.Join(err, s.db.Close())
}
