package pglock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/backend/quorumlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/tabletest"
)

// Promise: a program that runs makes the tables again when they are not there any more, as its start
// would: a server that came back empty is used again. What was held is over, and it is told.
func TestARunningProgramMakesDroppedTablesAgain(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.User("app", ""))
	s.SQL("CREATE SCHEMA own AUTHORIZATION app")
	d := errtest.Must(openURL(t.Context(), s.URLOf("app", "")+"&schema=own"))(t)
	defer d.Close()
	for _, drop := range []string{"DROP SCHEMA own CASCADE; CREATE SCHEMA own AUTHORIZATION app", "DROP OWNED BY app; CREATE SCHEMA IF NOT EXISTS own AUTHORIZATION app"} {
		tabletest.DroppedTables(t, d, func() { s.SQL(drop) })
	}

	// Who may not make them is told what to do.
	s.SQL("DROP SCHEMA own CASCADE; REVOKE CREATE ON DATABASE postgres FROM app")
	if _, err := d.Open(t.Context(), driver.SessionOptions{TTL: ttl}); err == nil || !driver.IsPermanent(err) {
		t.Errorf("Open where the user may not make them: %v", err)
	} else {
		t.Log(err)
	}
}

// Promise: a member of a quorum whose server comes back empty counts again after a TTL, without a program that is newly
// started.
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
