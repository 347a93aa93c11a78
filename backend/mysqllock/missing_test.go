package mysqllock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: a program that runs makes the tables again when they are not there any more, as its start
// would: a server that came back empty is used again. What was held is over, and it is told.
func TestARunningProgramMakesDroppedTablesAgain(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	d, old := session(t, s.URL())
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	k, err := old.Join(ctx, mutex("q", 1))
	noError(t, err)
	s.Do("DROP DATABASE locks; CREATE DATABASE locks CHARACTER SET utf8mb4")
	for err = nil; !errors.Is(err, driver.ErrSession); time.Sleep(10 * time.Millisecond) {
		// A connection of before has no database any more.
		if _, err = old.Renew(ctx, []driver.Ticket{k}); err == nil || driver.IsPermanent(err) && !errors.Is(err, driver.ErrSession) || ctx.Err() != nil {
			t.Fatalf("Renew of what the tables had: %v", err)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				s, err := d.Open(ctx, driver.SessionOptions{TTL: time.Minute})
				if err == nil {
					s.Close(ctx)
					return
				}
				if driver.IsPermanent(err) || ctx.Err() != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	fresh := errtest.Must(d.Open(ctx, driver.SessionOptions{TTL: time.Minute}))(t)

	if again, err := fresh.Join(ctx, mutex("q", 2)); err != nil || !again.Held || again.Token <= k.Token {
		t.Errorf("Join: %+v, %v; the token was %d", again, err, k.Token)
	}
}
