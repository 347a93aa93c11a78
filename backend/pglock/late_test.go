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
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
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
	l := &late{t, s, connect(t, s)}
	l.exec("SELECT pg_advisory_lock(1)")
	return l
}

func connect(t *testing.T, s *pgtest.Server) *pgx.Conn {
	t.Helper()
	conn := errtest.Must(pgx.Connect(t.Context(), s.URL()))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (l *late) exec(sql string) {
	l.t.Helper()
	_, err := l.conn.Exec(l.t.Context(), sql)
	noError(l.t, err)
}

// waits waits until so many transactions wait for a lock.
func (l *late) waits(n int) { l.t.Helper(); waiting(l.t, l.s, "wait_event_type = 'Lock'", n) }

// waiting waits until there are so many connections for which the condition holds.
func waiting(t *testing.T, s *pgtest.Server, where string, n int) {
	t.Helper()
	busy.Until(t, fmt.Sprint(n, " are there with ", where), func() bool { return len(s.Backends(where)) >= n })
}

// commit lets them commit.
func (l *late) commit() { l.t.Helper(); l.exec("SELECT pg_advisory_unlock(1)") }

func short(t *testing.T, d driver.Driver, ttl time.Duration) *driver.Opened {
	t.Helper()
	s := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: ttl}))(t)
	return s
}

// beat renews the tickets, and no others, until the test ends.
func beat(t *testing.T, s *driver.Opened, known ...driver.Ticket) {
	drivertest.Beat(t, s, min(s.TTL/10, 100*time.Millisecond), known...)
}

// granted waits for a ticket, which is renewed meanwhile, and says when it was held.
func granted(t *testing.T, s *driver.Opened, k driver.Ticket) driver.Instant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
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
func renews(s *driver.Opened, known ...driver.Ticket) <-chan renewal {
	c := make(chan renewal, 1)
	go func() {
		answer, err := s.Renew(context.Background(), known)
		c <- renewal{answer, err}
	}()
	return c
}

// begun is a renewal that has read the time, and waits for the row of its session.
type begun struct {
	answer <-chan renewal
	id     string
	tx     *late // has locked that row
}

// begins has a renewal begin, before the end of a session that a test chooses after that.
func begins(t *testing.T, s *pgtest.Server, of *driver.Opened, known ...driver.Ticket) begun {
	t.Helper()
	s.SQL("UPDATE interlock.ticket SET since = 0") // how old tickets are keeps none of them
	tx := &late{t, s, connect(t, s)}
	tx.exec(fmt.Sprintf("BEGIN; SELECT FROM interlock.session WHERE id = '%s' FOR UPDATE", of.ID))
	b := begun{renews(of, known...), of.ID, tx}
	tx.waits(1)
	return b
}

// ends has the session end, with what else is to be done in that transaction.
func (b begun) ends(also string) {
	b.tx.t.Helper()
	b.tx.exec(fmt.Sprintf("UPDATE interlock.session SET expires = extract(epoch FROM clock_timestamp()) * 1000000 WHERE id = '%s'; %s; COMMIT", b.id, also))
}

// stands makes sure that a ticket is the only one that is held, and stands for as long as
// a renewal has promised.
func stands(t *testing.T, d driver.Driver, k driver.Ticket, r renewal, promised time.Duration) {
	t.Helper()
	noError(t, r.err)
	q := errtest.Must(d.Follow(t.Context(), k.Queue, ""))(t)
	now := driver.Now()
	for _, m := range q.Members {
		if m.Held != (m.ID == k.ID) {
			t.Errorf("held: %v, which one: %s, not %s", m.Held, m.ID, k.ID)
		}
		if m.ID != k.ID {
			continue
		}
		for _, a := range r.answer {
			if end := now.Add(m.Left); a.State == driver.Kept && end < a.Proof.Add(promised) {
				t.Errorf("it ends %v before the time that was promised", a.Proof.Add(promised).Sub(end))
			}
		}
	}
	if len(r.answer) != 1 || r.answer[0].State != driver.Kept {
		t.Errorf("the renewal says %+v", r.answer)
	}
}

// Promise: a ticket that gets an end of its own while a renewal that names it is being committed, since it is evicted
// or another renewal does not name it, has no earlier end than the first one promises.
func TestOwnEndWhileARenewalIsCommitted(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(driver.Driver, *driver.Opened, driver.Ticket) error{
		"evicted": func(d driver.Driver, _ *driver.Opened, k driver.Ticket) error {
			return d.Ask(context.Background(), "q", k.ID, driver.Evict)
		},
		"not named": func(_ driver.Driver, a *driver.Opened, _ driver.Ticket) error {
			_, err := a.Renew(context.Background(), nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Start(t)
			d := opened(t, s.URL())
			a, b := session(t, d), session(t, d)
			k := join(t, a, request("q", 1))
			join(t, b, request("q", 1))
			// It renews as if it had done so half a TTL ago.
			s.SQL("UPDATE interlock.session SET expires = expires - ttl / 2; UPDATE interlock.ticket SET since = 0")
			l := newLate(t, s, "UPDATE ON interlock.session", fmt.Sprintf("NEW.id = '%s'", a.ID))
			renewed := renews(a, k)
			l.waits(1)
			ended := make(chan error, 1)
			go func() { ended <- end(d, a, k) }()
			busy.Until(t, "the end is done, or waits for the renewal", func() bool {
				return len(ended) > 0 || len(s.Backends("wait_event_type = 'Lock'")) >= 2
			})
			l.commit()
			noError(t, <-ended)
			stands(t, d, k, <-renewed, ttl)
		})
	}
}

// Promise: while a renewal is being committed nobody takes its tickets out, however
// late that is; once it is committed, what it promises holds.
func TestRenewalThatIsCommittedLate(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := session(t, d), session(t, d)
	k := join(t, a, request("q", 1))
	join(t, b, request("q", 1))
	l := newLate(t, s, "UPDATE ON interlock.session", "NEW.expires > OLD.expires")
	r := begins(t, s, a, k)
	r.ends("")
	waiting(t, s, "wait_event = 'advisory'", 1)
	// The end that others see has passed.
	s.SQL("SET lock_timeout = '1min'; SELECT interlock.settle('q')")
	if n := s.SQL("SELECT count(*) FROM interlock.session WHERE expires < extract(epoch FROM now()) * 1000000"); n != "1" {
		t.Errorf("%s sessions have ended, as others see it", n)
	}
	l.commit()
	stands(t, d, k, <-r.answer, ttl)
}

// Promise: a renewal that is overtaken by a later one takes back nothing of what that one
// has promised.
func TestRenewalThatIsOvertaken(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	a := session(t, opened(t, s.URL()))
	k := join(t, a, request("q", 1))
	// The first renewal stops when it has read the time, before it locks the session.
	s.SQL(`CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN IF pg_try_advisory_xact_lock(2) THEN PERFORM pg_advisory_xact_lock_shared(1); END IF; RETURN NULL; END';
		CREATE TRIGGER stop BEFORE UPDATE ON interlock.session FOR EACH STATEMENT EXECUTE FUNCTION stop()`)
	first := &late{t, s, connect(t, s)}
	first.exec("SELECT pg_advisory_lock(1)")
	overtaken := renews(a, k)
	first.waits(1)
	kept := func(r renewal) {
		t.Helper()
		if r.err != nil || len(r.answer) != 1 || r.answer[0].State != driver.Kept {
			t.Fatalf("the renewal says %+v", r)
		}
	}
	kept(<-renews(a, k))
	promised := s.SQL("SELECT expires FROM interlock.session")
	first.commit()
	kept(<-overtaken)
	if s.SQL("SELECT expires >= "+promised+" FROM interlock.session") != "t" {
		t.Errorf("the session ends before %s, which was promised", promised)
	}
}

// Promise: who takes out the tickets of a session that has ended ends it for good,
// however late that is committed: its renewal is told so.
func TestTakingOutThatIsCommittedLate(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := session(t, d), session(t, d)
	k := join(t, a, request("q", 1))
	waits := join(t, b, request("q", 1))
	r := begins(t, s, a, k)
	r.ends("SELECT interlock.settle('q')")
	if r := <-r.answer; !errors.Is(r.err, driver.ErrSession) {
		t.Errorf("the renewal of a session whose ticket is taken out: %+v, %v", r.answer, r.err)
	}
	granted(t, b, waits)
}

// Promise: a ticket of which a client was told that it is gone, while a renewal that
// keeps it is being committed, does not stand in the way of others.
func TestGoneWhileARenewalIsCommitted(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d, other := opened(t, s.URL()), opened(t, s.URL())
	a, b := session(t, d), session(t, other)
	h := join(t, b, request("q", 1))
	r := request("q", 1)
	k := join(t, a, r)
	l := newLate(t, s, "UPDATE ON interlock.session", "NEW.expires > OLD.expires")
	first := begins(t, s, a, k)
	first.ends("")
	waiting(t, s, "wait_event = 'advisory'", 1)
	r.Retry = true // the end of the session, as others see it, has passed
	if got, err := a.Join(t.Context(), r); !errors.Is(err, driver.ErrGone) {
		t.Errorf("it was not told so: %+v, %v", got, err)
	}
	l.commit()
	noError(t, (<-first.answer).err)
	if n := s.SQL("SELECT count(*) FROM interlock.ticket WHERE id = '" + k.ID + "'"); n != "1" {
		t.Errorf("%s such tickets stand", n)
	}
	noError(t, b.Leave(t.Context(), h, true))
	beat(t, a)
	runsOut(t, s, k.ID)
	if w := join(t, b, request("q", 1)); !w.Held {
		t.Error("it stands in the way after its end")
	}
}

// runsOut waits until a ticket has an end of its own, within a TTL, and has that pass.
func runsOut(t *testing.T, s *pgtest.Server, id string) {
	t.Helper()
	busy.Until(t, "the ticket has an end of its own, within a TTL", func() bool {
		return s.SQL(fmt.Sprintf("SELECT ends <= extract(epoch FROM now()) * 1000000 + %d FROM interlock.ticket WHERE id = '%s'", ttl.Microseconds(), id)) == "t"
	})
	s.SQL("UPDATE interlock.ticket SET ends = 1 WHERE id = '" + id + "'")
}

// Promise: a Join that its caller has given up and that is committed after that does
// not stand in the way of others, be it before or after the Leave.
func TestJoinThatIsCommittedAfterItWasGivenUp(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := session(t, d), session(t, d)
	k := join(t, a, request("q", 1))
	noError(t, a.Leave(t.Context(), k, true))
	beat(t, a)
	raw := errtest.Must(pgx.Connect(t.Context(), s.URL()))(t)
	defer raw.Close(context.Background())
	for range 10 {
		tx := errtest.Must(raw.Begin(t.Context()))(t)
		errtest.Must(tx.Exec(t.Context(), "SELECT FROM interlock.queue WHERE name = 'q' FOR UPDATE"))(t)
		r := request("q", 1)
		ctx, cancel := context.WithCancel(t.Context())
		joined := make(chan error, 1)
		go func() { _, err := a.Join(ctx, r); joined <- err }()
		busy.Until(t, "the Join waits", func() bool { return len(s.Backends("wait_event_type = 'Lock'")) > 0 })
		cancel()
		errtest.MustBe(t, <-joined, context.Canceled)
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
		name   string
		stood  bool
		others int
	}{{"alone", true, 0}, {"before one", true, 1}, {"before a line", true, 2}, {"behind one", false, 1}, {"behind a line", false, 2}, {"nowhere", false, 0}} {
		r := request(c.name, 1)
		k := driver.Ticket{ID: r.ID, Queue: r.Queue}
		var others []driver.Ticket
		come := func() {
			for range c.others {
				others = append(others, join(t, b, request(c.name, 1)))
			}
		}
		if c.others > 0 && !c.stood {
			come()
		} else {
			noError(t, b.Leave(t.Context(), join(t, b, request(c.name, 1)), true)) // makes the queue
		}
		if c.stood || c.others > 0 {
			giveUp(t, s, a, r)
		}
		if c.stood {
			come()
		}
		if err := a.Leave(t.Context(), k, true); (c.stood || c.others > 0) != (err == nil) || err != nil && !errors.Is(err, driver.ErrGone) {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got, err := a.Join(t.Context(), r); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s: the late Join has got %+v, %v", c.name, got, err)
		}
		for _, other := range others {
			noError(t, b.Leave(t.Context(), other, true))
		}
		if k := join(t, b, request(c.name, 1)); !k.Held {
			t.Errorf("%s: somebody is in the way", c.name)
		}
	}
}

// giveUp sends a Join that is given up, and comes in spite of that.
func giveUp(t *testing.T, s *pgtest.Server, a *driver.Opened, r driver.Request) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Join(ctx, r); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	arrive(s, a, r, false)
}

// arrive is what the server does when a Join arrives.
func arrive(s *pgtest.Server, a *driver.Opened, r driver.Request, retry bool) (answer string) {
	return s.SQL(fmt.Sprintf("SELECT interlock.join('%s', '%s', %d, '%s', 1, '%s', '', NULL, 0, false, %v, false)", r.Queue, r.Kind, r.Capacity, r.ID, a.ID, retry))
}

// Promise: a Join that comes after the one that has repeated it finds the ticket of
// that, makes no error in the server's log, and leaves nothing behind.
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
		var others []driver.Ticket
		switch place {
		case "in line":
			others = append(others, join(t, b, request(place, capacity)))
			fallthrough
		case "first in line", "one of many":
			others = append(others, join(t, b, request(place, capacity)))
		}
		r := request(place, capacity)
		if first, late := arrive(s, a, r, true), arrive(s, a, r, false); code(first) != code(late) {
			t.Errorf("%s: it got %s, the late one %s", place, first, late)
		}
		noError(t, a.Leave(t.Context(), driver.Ticket{ID: r.ID, Queue: place}, true))
		for _, k := range others {
			noError(t, b.Leave(t.Context(), k, true))
		}
		next, err := b.Join(t.Context(), request(place, capacity+1)) // of a queue that nobody is in
		if err != nil || !next.Held {
			t.Errorf("%s: when all have left, the next one has got %+v, %v", place, next, err)
		}
	}
	if log := s.Log(); strings.Contains(log, "ERROR") {
		t.Error(log)
	}
}

// noticed is a connection that tells when something was written to it.
type noticed struct {
	net.Conn
	wrote chan struct{}
}

func (n noticed) Write(b []byte) (int, error) {
	k, err := n.Conn.Write(b)
	select {
	case n.wrote <- struct{}{}:
	default:
	}
	return k, err
}

// Promise: a Join that a network delivers after the Leave, and later than a TTL, does
// not stand in the way of others for longer than a TTL.
func TestJoinThatArrivesLate(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	slow := pgtest.NewProxy(t, s.Addr)
	cfg := errtest.Must(pgxpool.ParseConfig(s.URL()))(t)
	var addr atomic.Value
	addr.Store(slow.Addr)
	wrote := make(chan struct{}, 1)
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr.Load().(string))
		return noticed{conn, wrote}, err
	}
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	cfg.MaxConns = 4 // one that hangs is in the way for some time
	pool := errtest.Must(pgxpool.NewWithConfig(t.Context(), cfg))(t)
	defer pool.Close()
	d := errtest.Must(pglock.New(t.Context(), pool))(t)
	defer d.Close()
	a, b := session(t, d), session(t, opened(t, s.URL()))
	noError(t, a.Leave(t.Context(), join(t, a, request("q", 1)), true)) // the statement is prepared
	before := s.SQL("SELECT last FROM interlock.queue")
	slow.Hang()
	addr.Store(s.Addr)
	for len(wrote) > 0 {
		<-wrote
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := request("q", 1)
	joined := make(chan error, 1)
	go func() { _, err := a.Join(ctx, r); joined <- err }()
	<-wrote
	cancel()
	errtest.MustBe(t, <-joined, context.Canceled)
	beat(t, a)
	busy.Until(t, "it leaves", func() bool { // the first try may take another connection that hangs
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return errors.Is(a.Leave(ctx, driver.Ticket{ID: r.ID, Queue: "q"}, true), driver.ErrGone)
	})
	s.SQL("UPDATE interlock.refused SET until = 1; UPDATE interlock.queue SET slow = 0") // a TTL has passed
	slow.Resume()
	busy.Until(t, "the Join has arrived", func() bool { return s.SQL("SELECT last FROM interlock.queue") != before })
	runsOut(t, s, r.ID)
	if w := join(t, b, request("q", 1)); !w.Held {
		t.Error("it stands in the way after its end")
	}
}

// Promise: a Leave while a Join is being committed serves it, too.
func TestLeaveWhileAJoinIsCommitted(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a, b := session(t, d), session(t, opened(t, s.URL()))
	k := join(t, a, request("q", 1))
	l := newLate(t, s, "INSERT ON interlock.ticket", fmt.Sprintf("NEW.session = '%s'", b.ID))
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
	case <-time.After(busy.Bound(time.Minute)):
		t.Error("it has not been served")
	}
}
