package fence

import (
	"context"
	"database/sql"
	"fmt"
)

// Store keeps the largest token of each resource, wherever that is: what a server needs that does
// work for the holders of locks. See package fencehttp.
type Store interface {
	// Do runs f unless the resource has seen a larger token: ErrStale. The token is stored
	// before f begins, and no larger one is accepted before f has ended, in no process that
	// uses the same store. The error of f is returned.
	Do(ctx context.Context, resource string, g Grant, f func() error) error
}

// Store is a [Store] in the table, for a server of several processes that use one database. Each
// call is two transactions. While f runs the second one is open, with a connection of its own, and
// other calls for the resource wait for it; on SQLite nobody else writes to the file meanwhile.
// What f itself writes to the database is better checked in its own transaction, by
// [Table.Check].
func (t *Table) Store(db *sql.DB) Store { return tableStore{t, db} }

type tableStore struct {
	t  *Table
	db *sql.DB
}

func (s tableStore) Do(ctx context.Context, resource string, g Grant, f func() error) error {
	// If the token was committed after f only, a crash in between would forget it.
	if err := s.in(ctx, resource, g, func() error { return nil }); err != nil {
		return err
	}
	ran := false
	var failed error
	err := s.in(ctx, resource, g, func() error {
		ran = true
		failed = f()
		return nil
	})
	if ran { // the end of this transaction says nothing: the token is stored
		return failed
	}
	return err
}

// in runs f in a transaction that has checked the grant.
func (s tableStore) in(ctx context.Context, resource string, g Grant, f func() error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fence %s: %w", resource, err)
	}
	defer tx.Rollback() // nothing after a commit
	if err := s.t.Check(ctx, tx, resource, g); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fence %s: %w", resource, err)
	}
	return nil
}
