package flashsale

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/rowlock"
)

// strategy is a way to sell.
type strategy struct {
	idea   string // for people, one line
	open   func(*shop) (sell, error)
	locks  bool     // it has locks of Interlock, and a URL says where
	cut    bool     // it cuts the stock into segments
	redis  bool     // its stock and buyers are in Redis, where sell looks at both; a URL says where
	struck []Strike // can be shown with it
	wrong  bool     // it may oversell
	loose  bool     // nothing keeps a buyer from a second order
}

// sell serves a buyer who wants a piece of an item: an order, or nothing is left.
type sell func(ctx context.Context, o order) (sold bool, err error)

// order is what a buyer gets.
type order struct {
	buyer, worker int
	item          int // the row of the stock: an item, or a segment of one
}

var strategies = map[string]strategy{
	"none":        {idea: "not at all: it oversells", open: none, wrong: true, loose: true},
	"local":       {idea: "by a lock of the process, a sync.Mutex: others do not see it, and it oversells", open: local, wrong: true},
	"conditional": {idea: "by one statement that reads and writes: UPDATE … WHERE stock > 0", open: conditional},
	"pessimistic": {idea: "by a transaction that locks the row before it reads", open: pessimistic},
	"optimistic":  {idea: "by writing only if nobody has written since, and trying again", open: optimistic},
	"mutex":       {idea: "by a lock around reading and writing", open: mutex, locks: true, struck: []Strike{Stop, Kill}},
	"striped":     {idea: "by a lock for each of 1, 4, and 16 segments of the stock", open: striped, locks: true, cut: true},
	"fenced":      {idea: "by a lock whose token the database checks", open: fenced, locks: true, struck: []Strike{Stop, Kill}},
	"lua":         {idea: "by one script in Redis; orders reach the database through a Stream", open: lua, redis: true, struck: []Strike{Kill}},
}

// Strategies lists the strategies in the order of the story that they tell.
func Strategies() []string {
	return []string{"none", "local", "conditional", "pessimistic", "optimistic", "mutex", "striped", "fenced", "lua"}
}

// Idea says in a line how a strategy protects the sale.
func Idea(name string) string { return strategies[name].idea }

// shop is what a worker has to sell with.
type shop struct {
	*store
	worker   int
	work     time.Duration
	locks    func() (*interlock.Client, error) // opens the client, for who wants it
	client   *interlock.Client                 // nil until then
	lock     string                            // what the names of locks begin with
	counters func() (*counter, error)          // opens the sale in Redis, for who wants it
	counter  *counter                          // nil until then
	items    int
	segments int  // of each item
	loose    bool // a buyer may get several orders
	redis    bool // sell looks itself what is left, and who has one
	strike   int  // the stock at which a worker may be struck; 0: never
	midway   func() error
	between  sync.Mutex                                            // of the buyer who is midway
	written  func() error                                          // says that a consumer has written an order
	beside   func(ctx context.Context, shut <-chan struct{}) error // what runs beside the clicks, and after shut to its end; or nil

	retries   atomic.Int64 // sales that began again
	refused   atomic.Int64 // those of them whose token was too old
	takenOver atomic.Int64 // entries of the Stream that another consumer had
	repeated  atomic.Int64 // entries whose order was there already
}

// another reports errors of a sale that did not take place, and may at another try:
// another buyer was faster, or the lock was lost.
func another(err error) bool {
	for _, e := range []error{errBetween, rowlock.ErrConflict, rowlock.ErrBusy, rowlock.ErrDeadlock, fence.ErrStale, interlock.ErrLost} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// think is the work between reading and writing.
func (s *shop) think(ctx context.Context) error {
	timer := time.NewTimer(s.work)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// check is what a strategy does first in each transaction.
type check func(ctx context.Context, tx *sql.Tx) error

// buy reads, thinks and writes, with whatever protection its caller has arranged.
func (s *shop) buy(ctx context.Context, o order, checks ...check) (sold bool, err error) {
	var left int
	err = s.transact(ctx, func(tx *sql.Tx) (err error) {
		if err = checkAll(ctx, tx, checks); err == nil {
			left, err = s.stock(ctx, tx, o.item)
		}
		return err
	})
	if err != nil || left <= 0 {
		return false, err
	}
	if err := s.think(ctx); err != nil {
		return false, err
	}
	if ctx, err = s.struck(ctx, o.item, left); err != nil {
		return false, err
	}
	err = s.transact(ctx, func(tx *sql.Tx) error {
		take := func() error {
			if err := checkAll(ctx, tx, checks); err != nil {
				return err
			}
			return s.setStock(ctx, tx, o.item, left-1)
		}
		if !s.loose {
			return s.placeOnce(ctx, tx, o, take)
		}
		if err := take(); err != nil {
			return err
		}
		return s.place(ctx, tx, o)
	})
	return err == nil, err
}

// soldBy is what a transaction that ended with err has sold.
func soldBy(err error) (sold bool, _ error) {
	if errors.Is(err, errSoldOut) {
		return false, nil
	}
	return err == nil, err
}

func checkAll(ctx context.Context, tx *sql.Tx, checks []check) error {
	for _, check := range checks {
		if err := check(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}
