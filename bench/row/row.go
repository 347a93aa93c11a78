// Package row locks as most libraries on SQL databases do: by a row with an end,
// for which a client that finds it taken asks again and again.
package row

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/interlock-go/interlock/bench/workload"
)

// every is how often it asks again.
const every = time.Second

// Statements of a table with a row for each lock. Each is a transaction of its own,
// and changes the row if it is the owner's to change.
type Statements struct {
	Make string
	Take string // inserts the row, or takes it over if its end has come: name, owner, TTL in microseconds
	Drop string // deletes the row: name, owner
}

// Contender asks again every second.
func Contender(s Statements, open func() (*sql.DB, error)) workload.Contender {
	var once sync.Once
	return workload.Contender{Name: "row, polled", Least: 3 * every,
		Settings: "inserts a row, or takes it over if it has expired; deletes it; asks again every second, as libraries on SQL do",
		Open: func(ctx context.Context, o workload.Options) (workload.Client, error) {
			db, err := open()
			if err != nil {
				return workload.Client{}, err
			}
			db.SetMaxIdleConns(4)
			db.SetMaxOpenConns(4)
			once.Do(func() { _, err = db.ExecContext(ctx, s.Make) })
			if err != nil {
				_ = db.Close()
				return workload.Client{}, err
			}
			return workload.Client{
				Lock:  func(name string) workload.Lock { return lock(db, s, name, o.TTL) },
				Close: db.Close,
			}, nil
		}}
}

// lock gives no context that ends to the database, which would make the client
// work harder.
func lock(db *sql.DB, s Statements, name string, ttl time.Duration) workload.Lock {
	return func(ctx context.Context) (h workload.Held, err error) {
		owner := rand.Text()
		for {
			ok, err := changed(db, s.Take, name, owner, ttl.Microseconds())
			if err != nil {
				return h, err
			}
			if ok {
				break
			}
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return h, context.Cause(ctx)
			}
		}
		return workload.Held{Release: func() error {
			ok, err := changed(db, s.Drop, name, owner)
			if err == nil && !ok {
				err = errors.New("the lock is not held any more")
			}
			return err
		}}, nil
	}
}

func changed(db *sql.DB, statement string, args ...any) (bool, error) {
	result, err := db.ExecContext(context.Background(), statement, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
