package flashsale

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/rowlock"
)

// Strategies lists the strategies in their usual order.
func Strategies() []string {
	return []string{"none", "mutex", "fenced", "striped", "optimistic", "pessimistic"}
}

// segments is into how many parts "striped" cuts the stock.
const segments = 8

// shop is what a worker has to sell with.
type shop struct {
	*store
	worker int
	work   time.Duration
	locks  func() (*interlock.Client, error) // opens the client, for who wants it
	client *interlock.Client                 // nil until then
	lock   string                            // its name
	items  int                               // segments of the stock

	retries atomic.Int64 // sales that began again
}

// sell serves a buyer: an order, or nothing is left.
type sell func(ctx context.Context, buyer int) (sold bool, err error)

var strategies = map[string]func(*shop) (sell, error){
	"none":        none,
	"mutex":       mutex,
	"fenced":      fenced,
	"striped":     striped,
	"optimistic":  optimistic,
	"pessimistic": pessimistic,
}

// another reports errors of a sale that did not take place, and may at another try:
// somebody was faster, or the lock was lost.
func another(err error) bool {
	for _, e := range []error{rowlock.ErrConflict, rowlock.ErrBusy, rowlock.ErrDeadlock, fence.ErrStale, interlock.ErrLost} {
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

// buy reads, thinks and writes, with whatever protection its caller has
// arranged; check, if any, is part of both transactions.
func (s *shop) buy(ctx context.Context, o order, check func(tx *sql.Tx) error) (sold bool, err error) {
	if check == nil {
		check = func(*sql.Tx) error { return nil }
	}
	var left int
	err = s.transact(ctx, func(tx *sql.Tx) (err error) {
		if err = check(tx); err == nil {
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
	err = s.transact(ctx, func(tx *sql.Tx) error {
		if err := check(tx); err != nil {
			return err
		}
		if err := s.setStock(ctx, tx, o.item, left-1); err != nil {
			return err
		}
		return s.place(ctx, tx, o)
	})
	return err == nil, err
}

func none(s *shop) (sell, error) {
	return func(ctx context.Context, buyer int) (bool, error) {
		return s.buy(ctx, order{buyer: buyer, worker: s.worker}, nil)
	}, nil
}

func mutex(s *shop) (sell, error) {
	locks, err := s.locks()
	if err != nil {
		return nil, err
	}
	lock := locks.Mutex(s.lock)
	return func(ctx context.Context, buyer int) (sold bool, err error) {
		err = lock.Do(ctx, func(ctx context.Context) (err error) {
			sold, err = s.buy(ctx, order{buyer: buyer, worker: s.worker}, nil)
			return err
		})
		return sold, err
	}, nil
}

func fenced(s *shop) (sell, error) {
	locks, err := s.locks()
	if err != nil {
		return nil, err
	}
	lock := locks.Mutex(s.lock)
	tokens, err := fence.NewColumn(s.fence, s.itemsTable, "id", "token")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, buyer int) (sold bool, err error) {
		o := order{buyer: buyer, worker: s.worker}
		err = lock.Do(ctx, func(ctx context.Context) (err error) {
			sold, err = s.buy(ctx, o, func(tx *sql.Tx) error { return tokens.Check(ctx, tx, o.item, interlock.LeaseFrom(ctx)) })
			return err
		})
		return sold, err
	}, nil
}

// striped begins with a segment that depends on the buyer, and goes on to the
// others while it finds nothing. A stock never grows, so who has found every
// segment empty, one after the other, knows that all is sold.
func striped(s *shop) (sell, error) {
	locks, err := s.locks()
	if err != nil {
		return nil, err
	}
	stripes := locks.Striped(s.lock, s.items)
	return func(ctx context.Context, buyer int) (sold bool, err error) {
		for i := range s.items {
			o := order{buyer: buyer, worker: s.worker, item: (buyer + i) % s.items}
			err = stripes.Stripe(o.item).Do(ctx, func(ctx context.Context) (err error) {
				sold, err = s.buy(ctx, o, nil)
				return err
			})
			if sold || err != nil {
				break
			}
		}
		return sold, err
	}, nil
}

func optimistic(s *shop) (sell, error) {
	table, err := rowlock.NewTable(s.rows, s.itemsTable, "id")
	if err != nil {
		return nil, err
	}
	items, err := rowlock.NewVersioned(table, "version")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, buyer int) (sold bool, err error) {
		o := order{buyer: buyer, worker: s.worker}
		calls := 0
		err = items.Retry(ctx, 10, func(ctx context.Context) error {
			if calls++; calls > 1 {
				s.retries.Add(1)
			}
			var left int
			version, err := items.Read(ctx, s.db, o.item, rowlock.Columns{"stock": &left})
			if err != nil || left <= 0 {
				return err
			}
			if err := s.think(ctx); err != nil {
				return err
			}
			err = s.transact(ctx, func(tx *sql.Tx) error {
				if err := items.Write(ctx, tx, o.item, version, rowlock.Columns{"stock": left - 1}); err != nil {
					return err
				}
				return s.place(ctx, tx, o)
			})
			sold = err == nil
			return err
		})
		return sold, err
	}, nil
}

func pessimistic(s *shop) (sell, error) {
	items, err := rowlock.NewTable(s.rows, s.itemsTable, "id")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, buyer int) (sold bool, err error) {
		o := order{buyer: buyer, worker: s.worker}
		tx, err := items.Begin(ctx, s.db)
		if err != nil {
			return false, err
		}
		defer tx.Rollback() // nothing after a commit
		if err := items.Lock(ctx, tx, o.item); err != nil {
			return false, err
		}
		left, err := s.stock(ctx, tx, o.item)
		if err != nil || left <= 0 {
			return false, err
		}
		if err := s.think(ctx); err != nil {
			return false, err
		}
		if err := s.setStock(ctx, tx, o.item, left-1); err != nil {
			return false, err
		}
		if err := s.place(ctx, tx, o); err != nil {
			return false, err
		}
		if err := tx.Commit(); err != nil {
			return false, err
		}
		return true, nil
	}, nil
}
