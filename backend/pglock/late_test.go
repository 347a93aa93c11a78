package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// late makes transactions wait right before they commit.
type late struct {
	t    *testing.T
	s    *pgtest.Server
	conn *pgx.Conn
}

// newLate is for those that have done something to a row for which the condition
// holds, such as "UPDATE ON interlock.session" and "NEW.over".
func newLate(t *testing.T, s *pgtest.Server, what, when string) *late {
	t.Helper()
	s.SQL(`CREATE OR REPLACE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER late AFTER ` + what + ` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (` + when + `) EXECUTE FUNCTION wait()`)
	conn, err := pgx.Connect(t.Context(), s.URL())
	noError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	l := &late{t, s, conn}
	l.exec("SELECT pg_advisory_lock(1)")
	return l
}

func (l *late) exec(sql string) {
	l.t.Helper()
	_, err := l.conn.Exec(l.t.Context(), sql)
	noError(l.t, err)
}

// waits waits until so many transactions wait for a lock.
func (l *late) waits(n int) {
	l.t.Helper()
	until(l.t, fmt.Sprint(n, " transactions wait"), func() bool { return len(l.s.Backends("wait_event_type = 'Lock'")) >= n })
}

// commit lets them commit.
func (l *late) commit() { l.t.Helper(); l.exec("SELECT pg_advisory_unlock(1)") }

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func short(t *testing.T, d driver.Driver, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := d.Open(t.Context(), driver.SessionOptions{TTL: ttl})
	noError(t, err)
	return s
}

// beat renews the tickets, and no others, until the test ends.
func beat(t *testing.T, s driver.Session, known ...driver.Ticket) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = s.Renew(ctx, known)
			select {
			case <-time.After(s.TTL() / 10):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// granted waits for a ticket, which is renewed meanwhile, and says when it was held.
func granted(t *testing.T, s driver.Session, k driver.Ticket) driver.Instant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	k, err := s.Await(ctx, k)
	if err != nil || !k.Held {
		t.Fatalf("it is not granted: %+v, %v", k, err)
	}
	return driver.Now()
}

type renewal struct {
	answer []driver.Renewed
	err    error
}

// renews sends a renewal in the background.
func renews(s driver.Session, known ...driver.Ticket) <-chan renewal {
	c := make(chan renewal, 1)
	go func() {
		answer, err := s.Renew(context.Background(), known)
		c <- renewal{answer, err}
	}()
	return c
}

// checkExclusion: what a renewal has promised, nobody else had been granted.
func checkExclusion(t *testing.T, r renewal, ttl time.Duration, next driver.Instant) {
	t.Helper()
	for _, a := range r.answer {
		if a.State == driver.Kept && next < a.Proof.Add(ttl) {
			t.Errorf("the next one holds %v before the time that was promised to the one before it is over", a.Proof.Add(ttl).Sub(next))
		}
	}
}

// Promise: a holder who is evicted while a renewal is being committed keeps what that
// renewal promises.
func TestEvictWhileARenewalIsCommitted(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := short(t, d, ttl), short(t, d, ttl)
	k := join(t, a, request("q", 1))
	waits := join(t, b, request("q", 1))
	l := newLate(t, s, "UPDATE ON interlock.session", fmt.Sprintf("NEW.id = '%s'", a.ID()))
	beat(t, b, waits)
	time.Sleep(ttl / 2)
	renewed := renews(a, k)
	l.waits(1)
	asked := make(chan error, 1)
	go func() { asked <- d.Ask(context.Background(), "q", k.ID, driver.Evict) }()
	until(t, "the eviction is done, or waits for the renewal", func() bool {
		return len(asked) > 0 || len(s.Backends("wait_event_type = 'Lock'")) == 2
	})
	l.commit()
	noError(t, <-asked)
	r := <-renewed
	noError(t, r.err)
	checkExclusion(t, r, ttl, granted(t, b, waits))
}

// Promise: while a renewal is being committed nobody takes its tickets out, however
// late that is; once it is committed, what it promises holds.
func TestRenewalThatIsCommittedLate(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := short(t, d, ttl), short(t, d, ttl)
	k := join(t, a, request("q", 1))
	waits := join(t, b, request("q", 1))
	beat(t, b, waits)
	l := newLate(t, s, "UPDATE ON interlock.session", fmt.Sprintf("NEW.id = '%s'", a.ID()))
	renewed := renews(a, k)
	l.waits(1)
	got := make(chan driver.Instant, 1)
	go func() { got <- granted(t, b, waits) }()
	select {
	case <-got:
		t.Error("the next one holds while a renewal of the one before it is being committed")
	case <-time.After(3 * ttl / 2):
	}
	l.commit()
	r := <-renewed
	if r.err == nil {
		checkExclusion(t, r, ttl, <-got)
	} else if !errors.Is(r.err, driver.ErrSession) {
		t.Error(r.err)
	}
}

// Promise: who takes out the tickets of a session that has ended ends it for good,
// however late that is committed: its renewal is told so.
func TestTakingOutThatIsCommittedLate(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := short(t, d, ttl), short(t, d, ttl)
	k := join(t, a, request("q", 1))
	waits := join(t, b, request("q", 1))
	beat(t, b, waits)
	l := newLate(t, s, "UPDATE ON interlock.session", "NEW.over")
	got := make(chan driver.Instant, 1)
	go func() { got <- granted(t, b, waits) }()
	l.waits(1)
	renewed := renews(a, k)
	l.waits(2)
	l.commit()
	if r := <-renewed; !errors.Is(r.err, driver.ErrSession) {
		t.Errorf("the renewal of a session whose ticket is being taken out: %+v, %v", r.answer, r.err)
	}
	<-got
}

// Promise: a ticket of which a client was told that it is gone, while a renewal that
// keeps it is being committed, does not stand in the way of others.
func TestGoneWhileARenewalIsCommitted(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	s := pgtest.Start(t)
	d, other := opened(t, s.URL()), opened(t, s.URL())
	a, b := short(t, d, ttl), short(t, other, ttl)
	h := join(t, b, request("q", 1))
	beat(t, b, h)
	r := request("q", 1)
	k := join(t, a, r)
	l := newLate(t, s, "UPDATE ON interlock.session", fmt.Sprintf("NEW.id = '%s'", a.ID()))
	time.Sleep(ttl * 6 / 10)
	renewed := renews(a, k)
	l.waits(1)
	time.Sleep(ttl * 6 / 10) // the end of the session, as others see it, has passed
	r.Retry = true
	_, gone := a.Join(t.Context(), r)
	l.commit()
	first := <-renewed
	noError(t, b.Leave(t.Context(), h, true))
	if gone == nil || first.err != nil {
		t.Skipf("it was not told so: %v; %v", gone, first.err)
	}
	beat(t, a)
	w := join(t, b, request("q", 1))
	beat(t, b, w)
	if !w.Held {
		granted(t, b, w)
	}
}

// Promise: a Join that its caller has given up and that is committed after that does
// not stand in the way of others, be it before or after the Leave.
func TestJoinThatIsCommittedAfterItWasGivenUp(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := short(t, d, time.Second), session(t, d)
	k := join(t, a, request("q", 1))
	noError(t, a.Leave(t.Context(), k, true))
	beat(t, a)
	raw, err := pgx.Connect(t.Context(), s.URL())
	noError(t, err)
	defer raw.Close(context.Background())
	for range 10 {
		tx, err := raw.Begin(t.Context())
		noError(t, err)
		_, err = tx.Exec(t.Context(), "SELECT FROM interlock.queue WHERE name = 'q' FOR UPDATE")
		noError(t, err)
		r := request("q", 1)
		ctx, cancel := context.WithCancel(t.Context())
		joined := make(chan error, 1)
		go func() { _, err := a.Join(ctx, r); joined <- err }()
		until(t, "the Join waits", func() bool { return len(s.Backends("wait_event_type = 'Lock'")) > 0 })
		cancel()
		if err := <-joined; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		left := make(chan error, 1)
		go func() { left <- a.Leave(t.Context(), driver.Ticket{ID: r.ID, Queue: "q"}, true) }()
		noError(t, tx.Commit(t.Context()))
		if err := <-left; err != nil && !errors.Is(err, driver.ErrGone) {
			t.Fatal(err)
		}
		noError(t, b.Leave(t.Context(), acquire(t, b, "q", 1), true))
	}
}

// Promise: a Join that was abandoned and comes after its ticket was left makes no ticket,
// whether that had stood or not, and whoever else is there.
func TestLateJoin(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	a, b := session(t, opened(t, s.URL())), session(t, opened(t, s.URL()))
	for _, c := range []struct {
		name          string
		stood, others bool
	}{{"alone", true, false}, {"before others", true, true}, {"behind others", false, true}, {"nowhere", false, false}} {
		r := request(c.name, 1)
		k := driver.Ticket{ID: r.ID, Queue: r.Queue}
		var other driver.Ticket
		if c.others && !c.stood {
			other = join(t, b, request(c.name, 1))
		} else {
			noError(t, b.Leave(t.Context(), join(t, b, request(c.name, 1)), true)) // makes the queue
		}
		if c.stood || c.others {
			giveUp(t, s, a, r)
		}
		if c.others && c.stood {
			other = join(t, b, request(c.name, 1))
		}
		if err := a.Leave(t.Context(), k, true); (c.stood || c.others) != (err == nil) || err != nil && !errors.Is(err, driver.ErrGone) {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got, err := a.Join(t.Context(), r); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s: the late Join has got %+v, %v", c.name, got, err)
		}
		if c.others {
			noError(t, b.Leave(t.Context(), other, true))
		}
		if k := join(t, b, request(c.name, 1)); !k.Held {
			t.Errorf("%s: somebody is in the way", c.name)
		}
	}
}

// giveUp sends a Join that is given up, and comes in spite of that.
func giveUp(t *testing.T, s *pgtest.Server, a driver.Session, r driver.Request) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Join(ctx, r); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	arrive(s, a, r, false)
}

// arrive is what the server does when a Join arrives.
func arrive(s *pgtest.Server, a driver.Session, r driver.Request, retry bool) (answer string) {
	return s.SQL(fmt.Sprintf("SELECT interlock.join('%s', '%s', %d, '%s', 1, '%s', '', NULL, 0, false, %v, false)", r.Queue, r.Kind, r.Capacity, r.ID, a.ID(), retry))
}

// Promise: a Join that comes after the one that has repeated it finds the ticket of
// that, and makes no error in the server's log.
func TestJoinThatIsOvertakenByItsRepetition(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	a, b := session(t, opened(t, s.URL())), session(t, opened(t, s.URL()))
	code := func(answer string) string { code, _, _ := strings.Cut(answer, ","); return code }
	for _, place := range []string{"the only one", "first in line", "in line", "one of many"} {
		capacity := int64(1)
		if place == "one of many" {
			capacity = 5
		}
		switch place {
		case "in line":
			join(t, b, request(place, capacity))
			fallthrough
		case "first in line", "one of many":
			join(t, b, request(place, capacity))
		}
		r := request(place, capacity)
		if first, late := arrive(s, a, r, true), arrive(s, a, r, false); code(first) != code(late) {
			t.Errorf("%s: it got %s, the late one %s", place, first, late)
		}
	}
	if log := s.Log(); strings.Contains(log, "ERROR") {
		t.Error(log)
	}
}

// Promise: a Join that a network delivers after the Leave, and later than a TTL, does
// not stand in the way of others for longer than a TTL.
func TestJoinThatArrivesLate(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	s := pgtest.Start(t)
	slow := pgtest.NewProxy(t, s.Addr)
	cfg, err := pgxpool.ParseConfig(s.URL())
	noError(t, err)
	var addr atomic.Value
	addr.Store(slow.Addr)
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr.Load().(string))
	}
	cfg.MaxConns = 4 // one that hangs is in the way for some time
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	noError(t, err)
	defer pool.Close()
	d, err := pglock.New(t.Context(), pool)
	noError(t, err)
	defer d.Close()
	b := session(t, opened(t, s.URL()))
	a := short(t, d, ttl)
	noError(t, a.Leave(t.Context(), join(t, a, request("q", 1)), true)) // the statement is prepared
	before := s.SQL("SELECT last FROM interlock.queue")
	slow.Hang()
	addr.Store(s.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), ttl/10)
	defer cancel()
	r := request("q", 1)
	if _, err := a.Join(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	beat(t, a)
	if err := a.Leave(t.Context(), driver.Ticket{ID: r.ID, Queue: "q"}, true); !errors.Is(err, driver.ErrGone) {
		t.Fatal(err)
	}
	time.Sleep(ttl + ttl/2)
	slow.Resume()
	until(t, "the Join has arrived", func() bool { return s.SQL("SELECT last FROM interlock.queue") != before })
	w := join(t, b, request("q", 1))
	beat(t, b, w)
	if !w.Held {
		granted(t, b, w)
	}
}

// Promise: a Leave while a Join is being committed serves it, too.
func TestLeaveWhileAJoinIsCommitted(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := session(t, d), session(t, opened(t, s.URL()))
	k := join(t, a, request("q", 1))
	l := newLate(t, s, "INSERT ON interlock.ticket", fmt.Sprintf("NEW.session = '%s'", b.ID()))
	got := make(chan error, 1)
	go func() {
		k, err := b.Join(context.Background(), request("q", 1))
		if err == nil && !k.Held {
			_, err = b.Await(context.Background(), k)
		}
		got <- err
	}()
	l.waits(1)
	left := make(chan error, 1)
	go func() { left <- a.Leave(context.Background(), k, true) }()
	l.waits(2)
	l.commit()
	noError(t, <-left)
	select {
	case err := <-got:
		noError(t, err)
	case <-time.After(time.Minute):
		t.Error("it has not been served")
	}
}
