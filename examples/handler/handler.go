// Handler is an HTTP server with a lock for each resource, and with a check of each write: what
// a handler that has lost its lock still writes is refused. Several servers may share the locks
// and the shop.
//
//	go run ./handler sqlite:locks.db shop.db localhost:8080
//	curl -i -X POST -H 'Idempotency-Key: 1' localhost:8080/items/42/sales
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"
	"unicode/utf8"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/once"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: handler URL FILE ADDRESS")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal("handler: ", err)
	}
}

// serve serves the shop until ctx ends.
func serve(ctx context.Context, url, file, address string) (err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	shop, err := openShop(ctx, locks, file)
	if err != nil {
		return err
	}
	defer shop.db.Close()
	server := &http.Server{Addr: address, Handler: shop.routes(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Requests that are under way come to their end, and release their locks, before Close.
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(closing)
}

// shop sells items over HTTP. Several processes may serve one shop.
type shop struct {
	locks  *interlock.Client
	db     *sql.DB
	tokens *fence.Column // of the items
	sales  *once.Table   // what was left, for each Idempotency-Key
	wait   time.Duration // how long a request waits for its item
	pay    func(ctx context.Context, item string) error
}

// openShop opens the shop's database, with an item to sell.
func openShop(ctx context.Context, locks *interlock.Client, file string) (*shop, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, stock INTEGER NOT NULL, token BIGINT);
		INSERT INTO items (id, stock) VALUES ('42', 10) ON CONFLICT DO NOTHING`)
	tokens, noColumn := fence.NewColumn(fence.SQLite, "items", "id", "token")
	sales, noTable := once.NewTable(once.SQLite, once.DefaultTable)
	if err = errors.Join(err, noColumn, noTable); err == nil {
		err = sales.Create(ctx, db)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
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
// it; requests for other items go on beside it. However often a request with one Idempotency-Key is
// sent, it sells one, and each gets the same answer. (Where users log in, put the user into the key:
// two may choose the same.)
func (s *shop) sell(w http.ResponseWriter, r *http.Request) {
	item, key := r.PathValue("item"), r.Header.Get("Idempotency-Key")
	if key == "" || len(key) > once.MaxKey || !utf8.ValidString(key) {
		http.Error(w, "an Idempotency-Key is needed", http.StatusBadRequest)
		return
	}
	sold, left := false, 0
	err := s.locks.Mutex("items/"+item, interlock.Wait(s.wait)).Do(r.Context(), func(ctx context.Context) (err error) {
		left, err = s.take(ctx, item, key)
		if sold = err == nil; !sold && ctx.Err() != nil {
			return context.Cause(ctx) // such as the loss of the lock
		}
		return err
	})
	if sold { // and stays so if the lock is lost after that: the write was checked
		fmt.Fprintln(w, "left:", left)
		return
	}
	code := status(err)
	switch code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1") // the same request may come again
	case http.StatusInternalServerError:
		log.Printf("sell %q: %v", item, err) // for us, not for the client
	}
	http.Error(w, http.StatusText(code), code)
}

var errSoldOut = errors.New("sold out")

// status is the status of a sale that did not take place. The first error that fits counts.
func status(err error) int {
	for _, s := range []struct {
		err  error
		code int
	}{
		{errSoldOut, http.StatusConflict},
		{once.ErrMismatch, http.StatusUnprocessableEntity}, // the key has bought another item
		{sql.ErrNoRows, http.StatusNotFound},
		{interlock.ErrInvalid, http.StatusNotFound},               // a name that no lock can have
		{interlock.ErrUnavailable, http.StatusServiceUnavailable}, // whether others have the item is not known
		{interlock.ErrBusy, http.StatusTooManyRequests},           // others had the item for all the time of Wait
		{interlock.ErrLost, http.StatusServiceUnavailable},
		{interlock.ErrClosed, http.StatusServiceUnavailable},
		{fence.ErrStale, http.StatusServiceUnavailable},
		{once.ErrBusy, http.StatusServiceUnavailable},
		{once.ErrConflict, http.StatusServiceUnavailable},
		{once.ErrUnknown, http.StatusServiceUnavailable},
		{context.Canceled, http.StatusServiceUnavailable}, // the client has gone: nobody reads it
	} {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	return http.StatusInternalServerError
}

// take takes one off the stock and returns what is left. With a key that has taken one before it
// takes none, and returns what was left then. ctx is that of Do: it ends when the lock is lost, and
// carries the lease.
func (s *shop) take(ctx context.Context, item, key string) (left int, err error) {
	// Before the payment. Under the lock of the item no other request with the key is under way.
	request := once.Request([]byte(item))
	text, found, err := s.sales.Lookup(ctx, s.db, key, request)
	if err != nil {
		return 0, err
	}
	if found {
		return strconv.Atoi(string(text))
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
		_, _, err := s.sales.Do(ctx, tx, key, func() ([]byte, error) {
			_, err := tx.ExecContext(ctx, "UPDATE items SET stock = ? WHERE id = ?", left, item)
			return []byte(strconv.Itoa(left)), err
		}, request)
		return err
	})
}

// checked runs f in a transaction that is refused (fence.ErrStale) if the item has seen a larger
// token than that of the lease under which this works.
func (s *shop) checked(ctx context.Context, item string, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	if err := s.tokens.Check(ctx, tx, item, interlock.LeaseFrom(ctx)); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
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
