package flashsale

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/rowlock"
)

// strategy is a way to sell.
type strategy struct {
	idea   string                                            // for people, one line
	sell   func(ctx context.Context, s *shop, o order) error // nil: sold; or errSoldOut
	locks  bool                                              // it has locks of Interlock, and a URL says where
	redis  bool                                              // its stock and buyers are in Redis, where sell looks at both; a URL says where
	struck []Strike                                          // can be shown with it
	wrong  bool                                              // it may oversell
	loose  bool                                              // nothing keeps a buyer from a second order
}

var strategies = map[string]strategy{
	"none":        {idea: "not at all: it oversells", sell: none, wrong: true, loose: true},
	"local":       {idea: "by a lock of the process, a sync.Mutex: others do not see it, and it oversells", sell: local, wrong: true},
	"conditional": {idea: "by one statement that reads and writes: UPDATE … WHERE stock > 0", sell: conditional},
	"pessimistic": {idea: "by a transaction that locks the row before it reads", sell: pessimistic},
	"optimistic":  {idea: "by writing only if nobody has written since, and trying again", sell: optimistic},
	"mutex":       {idea: "by a lock around reading and writing", sell: mutex, locks: true, struck: []Strike{Stop, Kill}},
	"striped":     {idea: "by a lock for each of 1, 4, and 16 segments of the stock", sell: striped, locks: true},
	"fenced":      {idea: "by a lock whose token the database checks", sell: fenced, locks: true, struck: []Strike{Stop, Kill}},
	"lua":         {idea: "by one script in Redis; orders reach the database through a Stream", sell: lua, redis: true, struck: []Strike{Kill}},
}

// Strategies lists the strategies in the order of the story that they tell.
func Strategies() []string {
	return []string{"none", "local", "conditional", "pessimistic", "optimistic", "mutex", "striped", "fenced", "lua"}
}

// Idea says in a line how a strategy protects the sale.
func Idea(name string) string { return strategies[name].idea }

// order is what a buyer gets.
type order struct {
	buyer, worker int
	item          int // the row of the stock: an item, or a segment of one
}

// none protects nothing.
func none(ctx context.Context, s *shop, o order) error { return s.buy(ctx, o, unchecked) }

// local is a lock of the process. It is exact with one worker. With several, each
// has a lock of its own, and they sell the same pieces.
func local(ctx context.Context, s *shop, o order) error {
	s.own[o.item].Lock()
	defer s.own[o.item].Unlock()
	return s.buy(ctx, o, unchecked)
}

// conditional leaves it to one statement of the database, which no other can come
// between. Where one statement says all of it, no lock is needed.
func conditional(ctx context.Context, s *shop, o order) error {
	time.Sleep(work)
	return s.write(ctx, o, func(tx *sql.Tx) error {
		n, err := s.exec(ctx, tx, "UPDATE items SET stock = stock - 1 WHERE id = ? AND stock > 0", o.item)
		if err == nil && n == 0 {
			err = errSoldOut
		}
		return err
	})
}

// pessimistic locks the row before it reads it. Others wait in the database until the
// transaction ends.
func pessimistic(ctx context.Context, s *shop, o order) error {
	return s.rows.Do(ctx, s.db, 1, func(ctx context.Context, tx *sql.Tx) error {
		return s.placeOnce(ctx, tx, o, func(tx *sql.Tx) error {
			if err := s.rows.Lock(ctx, tx, o.item); err != nil {
				return err
			}
			left, err := s.stock(ctx, tx, o.item)
			if err != nil {
				return err
			}
			time.Sleep(work)
			return s.setStock(ctx, tx, o.item, left-1)
		})
	})
}

// optimistic reads the row with its version and writes only if that version still
// stands. Otherwise another was faster (rowlock.ErrConflict), and it tries again.
func optimistic(ctx context.Context, s *shop, o order) error {
	var left int
	version, err := s.versioned.Read(ctx, s.db, o.item, rowlock.Columns{"stock": &left})
	if err != nil {
		return err
	}
	if left <= 0 {
		return errSoldOut
	}
	time.Sleep(work)
	return s.write(ctx, o, func(tx *sql.Tx) error {
		return s.versioned.Write(ctx, tx, o.item, version, rowlock.Columns{"stock": left - 1})
	})
}

// mutex holds a lock while it reads and writes. In strict order buyers are served as
// they came, at whichever worker, so that the workers take turns.
func mutex(ctx context.Context, s *shop, o order) error {
	lock := s.client.Mutex(fmt.Sprintf("%s/%d", s.Lock, o.item), interlock.StrictOrder())
	return s.under(ctx, lock, o, unchecked)
}

// fenced is mutex, and the database refuses a token that is older than one that it
// has seen. So a worker that was stopped too long cannot write what it believes.
func fenced(ctx context.Context, s *shop, o order) error {
	lock := s.client.Mutex(fmt.Sprintf("%s/%d", s.Lock, o.item), interlock.StrictOrder())
	return s.under(ctx, lock, o, func(ctx context.Context, tx *sql.Tx) error {
		return s.tokens.Check(ctx, tx, o.item, interlock.LeaseFrom(ctx))
	})
}

// striped cuts the stock of an item into segments, each with a lock of its own. A buyer
// begins with one of them and goes on to the next while nothing is left. A stock never
// grows, so whoever has found every segment empty, one after the other, knows that all
// is sold.
func striped(ctx context.Context, s *shop, o order) (err error) {
	stripes := s.client.Striped(s.Lock, s.Items*s.Segments, interlock.StrictOrder())
	item := o.item
	for i := range s.Segments {
		o.item = item*s.Segments + (o.buyer/s.Items+i)%s.Segments
		if err = s.under(ctx, stripes.Stripe(o.item), o, unchecked); !errors.Is(err, errSoldOut) {
			break
		}
	}
	return err
}

// under buys under a lock. An order that was committed stands, even if the lock was lost then.
func (s *shop) under(ctx context.Context, lock *interlock.Lock, o order, c check) error {
	sold := false
	err := lock.Do(ctx, func(ctx context.Context) error {
		err := s.buy(ctx, o, c)
		sold = err == nil
		return err
	})
	if sold {
		return nil
	}
	return err
}

// check is what a strategy does first in each transaction.
type check func(ctx context.Context, tx *sql.Tx) error

func unchecked(context.Context, *sql.Tx) error { return nil }

// work is the pause between reading and writing.
const work = time.Millisecond

// buy reads, works and writes, with whatever protection its caller has arranged.
func (s *shop) buy(ctx context.Context, o order, c check) error {
	var left int
	err := s.transact(ctx, func(tx *sql.Tx) (err error) {
		if err = c(ctx, tx); err == nil {
			left, err = s.stock(ctx, tx, o.item)
		}
		return err
	})
	if err != nil {
		return err
	}
	time.Sleep(work)
	// It has looked for the last time whether its lease stands: what it writes next is as if it were on its
	// way already.
	if struck, err := s.struck(o.item, left); err != nil {
		return err
	} else if struck {
		ctx = context.WithoutCancel(ctx)
	}
	return s.write(ctx, o, func(tx *sql.Tx) error {
		if err := c(ctx, tx); err != nil {
			return err
		}
		return s.setStock(ctx, tx, o.item, left-1)
	})
}

// Why a transaction is rolled back.
var (
	errHasOne  = errors.New("the buyer has an order")
	errSoldOut = errors.New("nothing is left")
	errBetween = errors.New("another buyer of this worker is between reading and writing")
)

// another reports errors of a sale that did not take place, and may at another try:
// another buyer was faster, or the lock was lost.
func another(err error) bool {
	may := []error{errBetween, rowlock.ErrConflict, rowlock.ErrBusy, rowlock.ErrDeadlock, fence.ErrStale, interlock.ErrLost}
	return slices.ContainsFunc(may, func(e error) bool { return errors.Is(err, e) })
}
