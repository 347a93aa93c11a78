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
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/once"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: handler URL FILE ADDRESS")
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "handler:", err)
		os.Exit(1)
	}
}

// serve serves the shop until ctx ends.
func serve(ctx context.Context, url, file, address string) (err error) {
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	db, err := openShop(ctx, file)
	if err != nil {
		return err
	}
	defer db.Close()
	shop, err := newShop(locks, db)
	if err != nil {
		return err
	}
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

// openShop opens the shop's database, with an item to sell.
func openShop(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, stock INTEGER NOT NULL, token BIGINT)",
		"INSERT INTO items (id, stock) VALUES ('42', 10) ON CONFLICT DO NOTHING",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	sales, err := once.NewTable(once.SQLite, once.DefaultTable)
	if err == nil {
		err = sales.Create(ctx, db)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
