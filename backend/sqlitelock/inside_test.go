package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/errtest"
	"zombiezen.com/go/sqlite"
)

var noError = errtest.None

const limit = time.Minute

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "locks.db") }

// client is a driver with its store.
type client struct {
	driver.Driver
	store *store
}

// caller is a session with the store of its client.
type caller struct {
	*driver.Opened
	store *store
}

func start(t testing.TB, path string, opts ...Option) *client {
	t.Helper()
	c := config{mode: defaultMode}
	for _, o := range opts {
		o(&c)
	}
	s := errtest.Must(openStore(t.Context(), path, c))(t)
	d := &client{exchange.New(s, s.mailbox.Name), s}
	t.Cleanup(func() { d.Close() })
	return d
}

// quiet counts the exchanges so far when none is added: the client looks once when it begins to listen.
func (d *client) quiet() (n uint64) {
	for n != d.Exchanges() {
		n = d.Exchanges()
		time.Sleep(20 * time.Millisecond)
	}
	return n
}

func begin(t testing.TB, d *client) *caller {
	t.Helper()
	s := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour}))(t)
	return &caller{s, d.store}
}

// session is the row of a caller's session, as the store has it.
func (s *caller) session() *session { return s.store.session(s.ID) }

func mutex(queue string) driver.Request {
	return driver.Request{ID: exchange.NewID(), Queue: queue, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

func (s *caller) mustJoin(t testing.TB, r driver.Request, held bool) driver.Ticket {
	t.Helper()
	got, err := s.Join(t.Context(), r)
	if err != nil || got.Held != held {
		t.Fatalf("Join: %+v, %v", got, err)
	}
	return got
}

func (s *caller) mustAwait(t testing.TB, tk driver.Ticket) driver.Ticket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	got, err := s.Await(ctx, tk)
	if err != nil {
		t.Fatalf("Await: %v", err)
	}
	return got
}

// because says what an error of another goroutine is about.
func because(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (s *caller) mustLeave(t testing.TB, tk driver.Ticket) {
	t.Helper()
	errtest.MustBe(t, s.Leave(t.Context(), tk, true), nil, "Leave")
}

// sql changes the file behind the driver's back.
func sql(t testing.TB, d *client, text string) {
	t.Helper()
	noError(t, d.store.change(t.Context(), fast, func(x *tx) error { return x.exec(text) }))
}

func count(t testing.TB, d *client, text string) (n int64) {
	t.Helper()
	noError(t, d.store.view(t.Context(), func(c conn, _ moment) error {
		_, err := c.one(text, func(s *sqlite.Stmt) { n = s.ColumnInt64(0) })
		return err
	}))
	return n
}

// After a reboot no session is left, fixed ends count on by the wall clock, and
// tokens grow.
func TestReboot(t *testing.T) {
	path := newFile(t)
	d := start(t, path)
	s := begin(t, d)
	plain := s.mustJoin(t, mutex("plain"), true)
	s.mustJoin(t, mutex("plain"), false)
	fixedRequest := mutex("fixed")
	fixedRequest.Hold = time.Hour
	s.mustJoin(t, fixedRequest, true)
	over := mutex("over")
	over.Hold = time.Hour
	s.mustJoin(t, over, true)
	// The machine was off for half an hour, and counts from zero again.
	sql(t, d, "UPDATE ticket SET wall = wall - 1800000000000 WHERE queue = 'fixed'")
	sql(t, d, "UPDATE ticket SET wall = wall - 7200000000000 WHERE queue = 'over'")
	sql(t, d, "UPDATE ticket SET ends = ends - 999000000000000, since = since - 999000000000000")
	sql(t, d, "UPDATE session SET expires = expires - 999000000000000")
	sql(t, d, "UPDATE file SET boot = 'an earlier one'")
	noError(t, d.Close())

	after := start(t, path)
	if after.store.clock.Boot == "" {
		t.Skip("this system does not tell boots apart")
	}
	next := begin(t, after)
	got := next.mustJoin(t, mutex("plain"), true)
	if got.Token <= plain.Token || !got.Inherited {
		t.Errorf("after token %d: %+v", plain.Token, got)
	}
	next.mustJoin(t, mutex("over"), true)
	q, err := after.Follow(t.Context(), "fixed", "")
	if err != nil || len(q.Members) != 1 {
		t.Fatalf("the fixed one: %+v, %v", q, err)
	}
	m := q.Members[0]
	if !m.Fixed || m.Left > 30*time.Minute || m.Left < 29*time.Minute {
		t.Errorf("half an hour of it is left: %+v", m)
	}
	if ago := time.Since(m.Since); ago < 29*time.Minute || ago > 31*time.Minute {
		t.Errorf("it was joined half an hour ago: %v", ago)
	}
}

// Tokens of a queue grow even if the wall clock falls back, and if the queue's
// row was removed meanwhile.
func TestTokensGrowWhenTheClockFallsBack(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	first := s.mustJoin(t, mutex("q"), true)
	s.mustLeave(t, first)
	ahead := int64(time.Hour / (10 * time.Microsecond))
	sql(t, d, fmt.Sprintf("UPDATE queue SET last = last + %d, granted = granted + %d", ahead, ahead)) // as if it had been an hour later
	second := s.mustJoin(t, mutex("q"), true)
	if second.Token <= first.Token+uint64(ahead) {
		t.Errorf("%d after %d", second.Token, first.Token+uint64(ahead))
	}
	s.mustLeave(t, second)

	sql(t, d, "UPDATE queue SET since = -9000000000000000")
	d.store.forgetQueues(t.Context())
	if n := count(t, d, "SELECT count(*) FROM queue"); n != 0 {
		t.Fatalf("%d idle queues are kept", n)
	}
	third := s.mustJoin(t, mutex("q"), true)
	if third.Token <= second.Token {
		t.Errorf("%d after %d and the removal of the row", third.Token, second.Token)
	}
	other := s.mustJoin(t, mutex("other"), true)
	if other.Token <= second.Token {
		t.Errorf("a new queue starts with %d below the floor %d", other.Token, second.Token)
	}
}

// What must be remembered of an empty queue is not forgotten.
func TestQueuesThatAreKept(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	noError(t, s.Leave(t.Context(), s.mustJoin(t, mutex("unclean"), true), false))
	s.mustJoin(t, mutex("in use"), true)
	s.mustLeave(t, s.mustJoin(t, mutex("recent"), true))
	s.mustLeave(t, s.mustJoin(t, mutex("idle"), true))
	sql(t, d, "UPDATE queue SET since = -9000000000000000 WHERE name <> 'recent'")
	d.store.forgetQueues(t.Context())
	if n := count(t, d, "SELECT count(*) FROM queue WHERE name = 'idle'"); n != 0 {
		t.Error("the idle one is kept")
	}
	if n := count(t, d, "SELECT count(*) FROM queue"); n != 3 {
		t.Errorf("%d queues are left, not 3", n)
	}
	if got := s.mustJoin(t, mutex("unclean"), true); !got.Inherited {
		t.Error("forgotten that the last holder did not leave cleanly")
	}
}

// takeAway removes the row of a ticket. The caller saves the queue.
func (t *tx) takeAway(tk driver.Ticket) (*queue, error) {
	q, err := t.queue(tk.Queue)
	if err != nil {
		return nil, err
	}
	p, err := t.ticket(q, t.s.tickets.get(tk.ID).n)
	if err != nil {
		return nil, err
	}
	return q, t.remove(q, p, true)
}

// A full disk or quota is told at once; it loses nothing, and Leave needs no
// space.
func TestFullDisk(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	held := s.mustJoin(t, mutex("q"), true)
	next := s.mustJoin(t, mutex("q"), false)
	pages := count(t, d, "PRAGMA page_count")
	errtest.Must(d.store.file.write.one(fmt.Sprintf("PRAGMA max_page_count = %d", pages), func(*sqlite.Stmt) {}))(t)
	var err error
	joined := []driver.Ticket{}
	for i := 0; err == nil && i < 10000; i++ {
		r := mutex(fmt.Sprint("filler", i))
		r.Note = make([]byte, 500)
		var got driver.Ticket
		if got, err = s.Join(t.Context(), r); err == nil {
			joined = append(joined, got)
		}
	}
	if !full(err) || !driver.IsPermanent(err) || !strings.Contains(err.Error(), "full") {
		t.Fatalf("Join on a full disk: %v", err)
	}
	if answer, err := s.Renew(t.Context(), append(joined, held, next)); err != nil {
		t.Errorf("Renew: %v", err)
	} else {
		for _, r := range answer {
			if r.State != driver.Kept {
				t.Errorf("%+v", r)
			}
		}
	}
	s.mustLeave(t, held)
	s.mustAwait(t, next)
	s.mustLeave(t, next)
	for _, tk := range joined {
		s.mustLeave(t, tk)
	}
	s.mustJoin(t, mutex("q"), true)
}

// A writer that leaves many readers behind grants them in several short
// transactions, without anybody's help.
func TestManyReadersAfterAWriter(t *testing.T) {
	d := start(t, newFile(t))
	s, other := begin(t, d), begin(t, start(t, d.store.file.path))
	rw := func(units int64) driver.Request {
		return driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.RWMutex, Units: units, Capacity: driver.RWCapacity}
	}
	writer := s.mustJoin(t, rw(driver.RWCapacity), true)
	var readers []driver.Ticket
	const many = 5*batch + 1
	for range many {
		readers = append(readers, other.mustJoin(t, rw(1), false))
	}
	last := s.mustJoin(t, rw(driver.RWCapacity), false)
	before := d.Exchanges()
	s.mustLeave(t, writer)
	if used := d.Exchanges() - before; used < many/batch || used > many/batch+3 {
		t.Errorf("%d readers were let in by %d exchanges, each at most %d", many, used, batch)
	}
	for _, r := range readers {
		other.mustAwait(t, r)
	}
	for _, r := range readers {
		other.mustLeave(t, r)
	}
	s.mustAwait(t, last)
}

// Somebody who died between two of these transactions leaves the rest to the next
// Renew.
func TestUnfinishedGrantsGoOn(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	held := s.mustJoin(t, mutex("q"), true)
	next := s.mustJoin(t, mutex("q"), false)
	err := d.store.change(t.Context(), fast, func(x *tx) error { // leaves without a grant
		q, err := x.takeAway(held)
		return errors.Join(err, x.save(q))
	})
	noError(t, err)
	errtest.Must(s.Renew(t.Context(), []driver.Ticket{next}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit/3)
	defer cancel()
	errtest.Must(s.Await(ctx, next))(t)
}

// Without sockets the file is looked at; waking up takes longer, that is all.
func TestWithoutSockets(t *testing.T) {
	path := newFile(t)
	without := func(c *config) { c.noSockets = true }
	a, b := start(t, path, without), start(t, path, without)
	if a.store.mailbox.Name != "" {
		t.Fatal("there is a socket")
	}
	s, other := begin(t, a), begin(t, b)
	held := s.mustJoin(t, mutex("q"), true)
	next := other.mustJoin(t, mutex("q"), false)
	got := make(chan error, 2)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	go func() {
		_, err := other.Await(ctx, next)
		got <- because("Await after the holder has left", err)
	}()
	go func() {
		_, err := b.Watch(ctx, "c", 0)
		got <- because("Watch of a cell that was changed", err)
	}()
	s.mustLeave(t, held)
	errtest.Must(a.Swap(t.Context(), driver.Swap{ID: exchange.NewID(), Name: "c"}))(t)
	for range 2 {
		errtest.Is(t, <-got, nil, "nobody was woken")
	}
	// A death is noticed by Renew.
	last := other.mustJoin(t, mutex("r"), true)
	mine := s.mustJoin(t, mutex("r"), false)
	noError(t, b.Close())
	_ = last
	errtest.Must(s.Renew(t.Context(), []driver.Ticket{mine}))(t)
	s.mustAwait(t, mine)
}

// The turn is not lost on somebody who does not wait for it any more, and those
// of one process line up.
func TestWriteLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "turn")
	both := make([]*writeLock, 2)
	for i := range both {
		f := errtest.Must(os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600))(t)
		defer f.Close()
		both[i] = newWriteLock(f, nil)
	}
	a, b := both[0], both[1]
	noError(t, a.take(t.Context(), coming))
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := b.take(ctx, coming); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("two have the turn: %v", err)
		}
		cancel()
	}
	a.pass()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	noError(t, a.take(ctx, coming)) // b's sleeper had it, and gave it back
	a.pass()

	const rounds = 2000
	var inside, turns atomic.Int64
	done := make(chan error, 8)
	for i := range cap(done) {
		go func() {
			var err error
			for n := range rounds {
				ctx, cancel := ctx, context.CancelFunc(func() {})
				if n%3 == 0 { // some give up
					ctx, cancel = context.WithTimeout(ctx, 50*time.Microsecond)
				}
				if taken := both[i%2].take(ctx, coming); taken == nil {
					if inside.Add(1) != 1 {
						err = errors.New("two have the turn")
					}
					turns.Add(1)
					inside.Add(-1)
					both[i%2].pass()
				} else if n%3 != 0 {
					err = errors.New("the turn never came")
				}
				cancel()
			}
			done <- err
		}()
	}
	for range cap(done) {
		noError(t, <-done)
	}
	t.Logf("%d turns", turns.Load())
}

// A socket that somebody has removed is made again by Renew.
func TestARemovedSocketIsMadeAgain(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	other := begin(t, start(t, d.store.file.path))
	socket := d.store.file.folder.File(d.store.mailbox.Name)
	if err := os.Remove(socket); err != nil {
		t.Skip(err) // there are no sockets here
	}
	errtest.Must(s.Renew(t.Context(), nil))(t)
	held := other.mustJoin(t, mutex("q"), true)
	next := s.mustJoin(t, mutex("q"), false)
	other.mustLeave(t, held)
	s.mustAwait(t, next)
}

// The files of those who died are cleared away, and no others.
func TestLeftovers(t *testing.T) {
	d := start(t, newFile(t))
	begin(t, d)
	dead := start(t, d.store.file.path)
	left := begin(t, dead)
	for _, f := range left.session().life.Files() {
		f.Close()
	}
	sql(t, d, fmt.Sprintf("DELETE FROM session WHERE sid = %d", left.session().sid))
	all := errtest.Must(filepath.Glob(d.store.file.folder.File("*")))(t)
	for _, f := range all {
		noError(t, os.Chtimes(f, time.Time{}, time.Now().Add(-time.Hour)))
	}
	d.store.clearFolder(t.Context())
	now := errtest.Must(filepath.Glob(d.store.file.folder.File("*")))(t)
	for _, f := range now {
		if strings.Contains(f, left.ID) {
			t.Errorf("%s is left", f)
		}
	}
	if len(now) < len(all)-2 {
		t.Errorf("of %v only %v is left", all, now)
	}
}

// watches returns when a client watches so many sessions.
func watches(ctx context.Context, t testing.TB, d *client, want int) {
	t.Helper()
	for {
		w := &d.store.watcher
		w.mu.Lock()
		found := len(w.lifelines)
		w.mu.Unlock()
		switch {
		case found >= want:
			return
		case ctx.Err() != nil:
			t.Fatalf("%d sessions are watched, not %d", found, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// With more sessions than one driver watches, it watches those in front of it.
func TestDeathAmongManySessions(t *testing.T) {
	d := start(t, newFile(t))
	crowd := start(t, d.store.file.path)
	var holder *caller
	for i := range maxWatched + 100 {
		s := begin(t, crowd)
		if i == maxWatched/2 {
			holder = s
			holder.mustJoin(t, mutex("q"), true)
		}
	}
	s := begin(t, d)
	next := s.mustJoin(t, mutex("q"), false)
	got := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	go func() {
		_, err := s.Await(ctx, next)
		got <- err
	}()
	watches(ctx, t, d, maxWatched)
	holder.session().life.Close() // as if its process had died
	errtest.MustBe(t, <-got, nil, "Await behind a holder that died, one of more sessions than are watched")
}

// Whoever dies between the commit of a grant and its message is seen to die, and
// the next one looks.
func TestDeathBetweenCommitAndMessage(t *testing.T) {
	d := start(t, newFile(t))
	dying := start(t, d.store.file.path)
	first, s := begin(t, dying), begin(t, d)
	held := first.mustJoin(t, mutex("q"), true)
	next := s.mustJoin(t, mutex("q"), false)
	got := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), limit/3)
	defer cancel()
	go func() {
		_, err := s.Await(ctx, next)
		got <- err
	}()
	watches(ctx, t, d, 1)
	x := &tx{s: dying.store}
	err := dying.store.transact(ctx, fast, x, func(x *tx) error {
		q, err := x.takeAway(held)
		return errors.Join(err, x.grant(q), x.save(q))
	})
	if err != nil || len(x.out) != 1 {
		t.Fatalf("%d messages, %v", len(x.out), err)
	}
	first.session().life.Close() // dead before it sends the message
	errtest.MustBe(t, <-got, nil, "Await of a grant whose message was never sent, since the sender died")
}
