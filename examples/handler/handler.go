package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/once"
)

// shop sells items over HTTP. Several processes may serve one shop.
type shop struct {
	locks  *interlock.Client
	db     *sql.DB
	tokens *fence.Column // of the items
	sales  *once.Table   // what was left, for each Idempotency-Key
	wait   time.Duration // how long a request waits for its item
	pay    func(ctx context.Context, item string) error
}

func newShop(locks *interlock.Client, db *sql.DB) (*shop, error) {
	tokens, err := fence.NewColumn(fence.SQLite, "items", "id", "token")
	if err != nil {
		return nil, err
	}
	sales, err := once.NewTable(once.SQLite, once.DefaultTable)
	if err != nil {
		return nil, err
	}
	return &shop{locks, db, tokens, sales, 2 * time.Second, pay}, nil
}

// routes are the requests that the shop serves.
func (s *shop) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /items/{item}/sales", s.sell)
	return mux
}

// sell sells one of an item. One request at a time works on an item, whichever process serves
// it; requests for other items go on beside it. However often a request with an Idempotency-Key is
// sent, it sells one, and each gets the same answer. (Where users log in, put the user into the key:
// two may choose the same.)
func (s *shop) sell(w http.ResponseWriter, r *http.Request) {
	item := r.PathValue("item")
	sold, left := false, 0
	lock := s.locks.Mutex("items/"+item, interlock.Wait(s.wait))
	err := lock.Do(r.Context(), func(ctx context.Context) (err error) {
		left, err = s.take(ctx, item, r.Header.Get("Idempotency-Key"))
		sold = err == nil
		return err
	})
	if sold { // and stays so if the lock is lost after that: the write was checked
		fmt.Fprintln(w, "left:", left)
		return
	}
	code := status(err)
	switch code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1") // nothing was written: the same request may come again
	case http.StatusInternalServerError:
		log.Printf("sell %q: %v", item, err) // for us, not for the client
	}
	http.Error(w, http.StatusText(code), code)
}

// status is the status of a sale that did not take place.
func status(err error) int {
	switch {
	case errors.Is(err, errSoldOut):
		return http.StatusConflict
	case errors.Is(err, errBadKey):
		return http.StatusBadRequest
	case errors.Is(err, once.ErrMismatch): // the key has bought another item
		return http.StatusUnprocessableEntity
	case errors.Is(err, sql.ErrNoRows), errors.Is(err, interlock.ErrInvalid): // also a name that no lock can have
		return http.StatusNotFound
	case errors.Is(err, interlock.ErrUnavailable): // whether others have the item is not known
		return http.StatusServiceUnavailable
	case errors.Is(err, interlock.ErrBusy): // others had the item for all the time of Wait
		return http.StatusTooManyRequests
	case errors.Is(err, interlock.ErrLost), errors.Is(err, fence.ErrStale), errors.Is(err, interlock.ErrClosed),
		errors.Is(err, once.ErrBusy), errors.Is(err, once.ErrConflict):
		return http.StatusServiceUnavailable
	case errors.Is(err, context.Canceled): // the client has gone: nobody reads it
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

var (
	errSoldOut = errors.New("sold out")
	errBadKey  = errors.New("a key that cannot be stored")
)

// take takes one off the stock and returns what is left. With a key that has taken one before it
// takes none, and returns what was left then. ctx is that of Do: it ends when the lock is lost, and
// carries the lease.
func (s *shop) take(ctx context.Context, item, key string) (left int, err error) {
	// Before the payment. Under the lock of the item no other request with the key is under way.
	if key != "" {
		switch text, found, err := s.sales.Lookup(ctx, s.db, key, once.Request([]byte(item))); {
		case errors.Is(err, once.ErrInvalid):
			return 0, errBadKey
		case err != nil:
			return 0, because(ctx, err)
		case found:
			return strconv.Atoi(string(text))
		}
	}
	// Before the first read: from here on nobody who held the lock before can write.
	err = s.checked(ctx, item, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT stock FROM items WHERE id = ?", item).Scan(&left)
	})
	if err != nil {
		return 0, err
	}
	if left == 0 {
		return 0, errSoldOut
	}
	// It takes long, and the lock may be lost meanwhile.
	if err := s.pay(ctx, item); err != nil {
		return 0, err
	}
	left--
	// And with the write: it is refused if another has had the lock since.
	return left, s.checked(ctx, item, func(tx *sql.Tx) error {
		write := func() ([]byte, error) {
			_, err := tx.ExecContext(ctx, "UPDATE items SET stock = ? WHERE id = ?", left, item)
			return strconv.AppendInt(nil, int64(left), 10), err
		}
		if key == "" {
			_, err := write()
			return err
		}
		_, _, err := s.sales.Do(ctx, tx, key, write, once.Request([]byte(item)))
		return err
	})
}

// checked runs f in a transaction that is refused (fence.ErrStale) if the item has seen a larger
// token than that of the lease under which this works.
func (s *shop) checked(ctx context.Context, item string, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return because(ctx, err)
	}
	defer tx.Rollback() // nothing after a commit
	if err := s.tokens.Check(ctx, tx, item, interlock.LeaseFrom(ctx)); err != nil {
		return because(ctx, err)
	}
	if err := f(tx); err != nil {
		return because(ctx, err)
	}
	return because(ctx, tx.Commit())
}

// because is why a call of the database failed: if its context had ended, the reason of that, such
// as the loss of the lock.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pay stands for a call of another service, which looks at its context.
func pay(ctx context.Context, _ string) error {
	select {
	case <-time.After(100 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
