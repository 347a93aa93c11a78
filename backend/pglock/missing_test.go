package pglock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/backend/quorumlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: a program that runs makes the tables again when they are not there any more, as its start
// would: a server that came back empty is used again. What was held is over, and it is told.
func TestARunningProgramMakesDroppedTablesAgain(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.User("app", ""))
	s.SQL("CREATE SCHEMA own AUTHORIZATION app")
	d := errtest.Must(openURL(t.Context(), s.URLOf("app", "")+"&schema=own"))(t)
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	for _, drop := range []string{"DROP SCHEMA own CASCADE; CREATE SCHEMA own AUTHORIZATION app", "DROP OWNED BY app; CREATE SCHEMA IF NOT EXISTS own AUTHORIZATION app"} {
		old := session(t, d)
		k := acquire(t, old, "q", 1)
		s.SQL(drop)
		if _, err := old.Renew(ctx, []driver.Ticket{k}); !errors.Is(err, driver.ErrSession) {
			t.Errorf("Renew of what the tables had: %v", err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				a, err := d.Open(ctx, driver.SessionOptions{TTL: ttl})
				if err != nil {
					t.Error(err)
					return
				}
				a.Close(ctx)
			})
		}
		all.Wait()
		fresh := session(t, d)
		if again := acquire(t, fresh, "q", 1); again.Token <= k.Token {
			t.Errorf("the token %d follows %d", again.Token, k.Token)
		}
		fresh.Close(ctx)
	}

	// Who may not make them is told what to do.
	s.SQL("DROP SCHEMA own CASCADE; REVOKE CREATE ON DATABASE postgres FROM app")
	if _, err := d.Open(ctx, driver.SessionOptions{TTL: ttl}); err == nil || !driver.IsPermanent(err) {
		t.Errorf("Open where the user may not make them: %v", err)
	} else {
		t.Log(err)
	}
}

// Promise: a member of a quorum whose server comes back empty counts again after a TTL, without a program that is newly started.
func TestAMemberOfAQuorumThatComesBackEmptyCountsAgain(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := errtest.Must(openURL(t.Context(), s.URL()))(t)
	q := errtest.Must(quorumlock.New(memlock.NewWorld().Driver(), memlock.NewWorld().Driver(), d))(t)
	defer q.Close()
	o := errtest.Must(q.Open(t.Context(), driver.SessionOptions{TTL: 2 * time.Second}))(t)
	defer o.Close(t.Context())
	counts := func(when string) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			last := ""
			_, _ = o.Renew(t.Context(), nil) // a heartbeat
			for _, f := range q.Check(t.Context()) {
				if (f.Check == "members" || f.Check == "restarts") && f.Status != driver.OK {
					last = f.Detail
				}
			}
			if last == "" {
				return
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%s: %s", when, last)
			}
		}
	}
	counts("at first")
	s.SQL("DROP SCHEMA interlock CASCADE")
	counts("after the loss of all tables")
}
