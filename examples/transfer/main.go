// Transfer moves money between two accounts under the locks of both. It gets both or neither, and
// two transfers in opposite directions never wait for each other. Each account checks the token of
// its own lock, so that nothing is written after a lock was lost.
//
//	go run ./transfer sqlite:locks.db bank.db 1 2 30    # from account 1 to account 2
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/fence"
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: transfer URL FILE FROM TO AMOUNT")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, file, from, to, text string) (err error) {
	amount, err := strconv.ParseInt(text, 10, 64)
	if err != nil || amount < 1 || from == to {
		return fmt.Errorf("%q from account %s to %s: the amount is at least 1, and the accounts are two", text, from, to)
	}
	db, err := openBank(ctx, file)
	if err != nil {
		return err
	}
	defer db.Close()
	locks, err := interlock.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	return transfer(ctx, locks, db, from, to, amount)
}

var errTooLittle = errors.New("there is too little on the account")

func transfer(ctx context.Context, locks *interlock.Client, db *sql.DB, from, to string, amount int64) error {
	tokens, err := fence.NewColumn(fence.SQLite, "accounts", "id", "token")
	if err != nil {
		return err
	}
	both := interlock.All(locks.Mutex("accounts/"+from), locks.Mutex("accounts/"+to))
	return both.Do(ctx, func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()                       // nothing after a commit
		parts := interlock.LeaseFrom(ctx).Parts() // in the order of the arguments of All
		for i, account := range []string{from, to} {
			if err := tokens.Check(ctx, tx, account, parts[i]); err != nil {
				return err
			}
		}
		var balance int64
		if err := tx.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = ?", from).Scan(&balance); err != nil {
			return err
		}
		if balance < amount {
			return errTooLittle
		}
		const add = "UPDATE accounts SET balance = balance + ? WHERE id = ?"
		_, taken := tx.ExecContext(ctx, add, -amount, from)
		_, given := tx.ExecContext(ctx, add, amount, to)
		if err := errors.Join(taken, given); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// openBank opens the database, with accounts 1, 2 and 3 of 100 each.
func openBank(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, token BIGINT);
		INSERT INTO accounts (id, balance) VALUES ('1', 100), ('2', 100), ('3', 100) ON CONFLICT DO NOTHING`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
