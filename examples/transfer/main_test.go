package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

func TestTransfersInAllDirectionsLoseNothingAndDoNotDeadlock(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db := errtest.Must(openBank(ctx, "bank.db"))(t)
	defer db.Close()
	var all sync.WaitGroup
	for process := range 3 {
		all.Go(func() {
			locks, err := interlock.Open(ctx, "sqlite:locks.db")
			if err != nil {
				t.Error(err)
				return
			}
			defer locks.Close()
			for i := range 10 {
				from, to := fmt.Sprint((process+i)%3+1), fmt.Sprint((process+2*i+1)%3+1)
				if from == to {
					continue
				}
				if err := transfer(ctx, locks, db, from, to, 30); err != nil && !errors.Is(err, errTooLittle) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var total, least int64
	errtest.None(t, db.QueryRowContext(ctx, "SELECT sum(balance), min(balance) FROM accounts").Scan(&total, &least))
	if total != 300 || least < 0 {
		t.Errorf("in all %d, the least %d; want 300 and none below 0", total, least)
	}
}

func TestATransferThatCannotBe(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		from, to, amount string
		want             error // nil: any
	}{{"1", "2", "101", errTooLittle}, {"1", "1", "1", nil}, {"1", "2", "0", nil}, {"1", "2", "x", nil}, {"1", "9", "1", sql.ErrNoRows}} {
		err := run(t.Context(), "sqlite:locks.db", "bank.db", c.from, c.to, c.amount)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s from %s to %s: got %v, want %v", c.amount, c.from, c.to, err, c.want)
		}
	}
}
