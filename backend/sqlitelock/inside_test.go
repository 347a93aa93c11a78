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
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/driver/exchange/rows"
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

// dies closes the files of the session, as if its process had died.
func (s *caller) dies() {
	s.store.mu.Lock()
	life := s.store.sessions[s.ID]
	delete(s.store.sessions, s.ID)
	s.store.mu.Unlock()
	life.Close()
}

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
	noError(t, d.store.change(t.Context(), false, func(x *tx) error { return x.exec(text) }))
}

func count(t testing.TB, d *client, text string) (n int64) {
	t.Helper()
	noError(t, d.store.view(t.Context(), func(c conn, _ time.Time) error {
		err := c.one(text, func(s *sqlite.Stmt) { n = s.ColumnInt64(0) })
		return err
	}))
	return n
}

// rewrite changes the row of a queue behind the driver's back.
func rewrite(t testing.TB, d *client, name string, f func(*queue)) {
	t.Helper()
	noError(t, d.store.change(t.Context(), false, func(x *tx) error {
		q := &queue{}
		var wrong error
		if err := x.one("SELECT rowid, "+data+" FROM queue WHERE name = ?", func(r *sqlite.Stmt) { wrong = q.scan(r, name) }, name); err != nil || wrong != nil {
			return errors.Join(err, wrong)
		}
		q.tail = tail{conn: x.conn, queue: name, writes: true}
		f(q)
		var out rows.Codec
		q.fields(&out)
		return x.exec("UPDATE queue SET data = ? WHERE rowid = ?", out.Out, q.row)
	}))
}

// long has it that the row of a queue was written long ago.
func long(q *queue) { q.Written = q.Written.Add(-2 * idleFor) }

// After a reboot no session is left, fixed ends count on by the wall clock, and
// tokens grow.
func TestReboot(t *testing.T) {
	path := newFile(t)
	d := start(t, path)
	s := begin(t, d)
	plain := s.mustJoin(t, mutex("plain"), true)
	s.mustJoin(t, mutex("plain"), false)
	for _, name := range []string{"fixed", "over"} {
		r := mutex(name)
		r.Hold = time.Hour
		s.mustJoin(t, r, true)
	}
	// The machine was off for half an hour, or for two, and counts from zero again.
	for name, off := range map[string]time.Duration{"plain": time.Minute, "fixed": 30 * time.Minute, "over": 2 * time.Hour} {
		rewrite(t, d, name, func(q *queue) {
			const zero = -999_000 * time.Second
			q.boot++
			q.Written, q.Wall = q.Written.Add(zero), q.Wall.Add(-off)
			for _, p := range q.Tickets {
				p.End, p.Since = p.End.Add(zero), p.Since.Add(-off)
			}
		})
	}
	noError(t, d.Close())

	after := start(t, path)
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
	ahead := uint64(time.Hour / (10 * time.Microsecond))
	rewrite(t, d, "q", func(q *queue) { q.Token += ahead }) // as if it had been an hour later
	second := s.mustJoin(t, mutex("q"), true)
	if second.Token <= first.Token+ahead {
		t.Errorf("%d after %d", second.Token, first.Token+ahead)
	}
	s.mustLeave(t, second)

	rewrite(t, d, "q", long)
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
	errtest.Must(d.store.Resize(t.Context(), "resized", 3))(t)
	for _, name := range []string{"unclean", "in use", "idle", "resized"} {
		rewrite(t, d, name, long)
	}
	d.store.forgetQueues(t.Context())
	if n := count(t, d, "SELECT count(*) FROM queue WHERE name = 'idle'"); n != 0 {
		t.Error("the idle one is kept")
	}
	if n := count(t, d, "SELECT count(*) FROM queue"); n != 4 {
		t.Errorf("%d queues are left, not 4", n)
	}
	if got := s.mustJoin(t, mutex("unclean"), true); !got.Inherited {
		t.Error("forgotten that the last holder did not leave cleanly")
	}
}

// A full disk or quota is told at once; it loses nothing, and Leave needs no
// space.
func TestFullDisk(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	held := s.mustJoin(t, mutex("q"), true)
	next := s.mustJoin(t, mutex("q"), false)
	pages := count(t, d, "PRAGMA page_count")
	errtest.None(t, d.store.file.write.one(fmt.Sprintf("PRAGMA max_page_count = %d", pages), func(*sqlite.Stmt) {}))
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
		both[i] = newWriteLock(f)
	}
	a, b := both[0], both[1]
	noError(t, a.take(t.Context(), nil))
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := b.take(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("two have the turn: %v", err)
		}
		cancel()
	}
	a.pass()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	noError(t, a.take(ctx, nil)) // b's sleeper had it, and gave it back
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
				if taken := both[i%2].take(ctx, nil); taken == nil {
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
	socket := d.store.file.folder.File(d.store.mailbox.Name + ".post")
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
	left.dies()
	all := errtest.Must(filepath.Glob(d.store.file.folder.File("*")))(t)
	for _, f := range all {
		noError(t, os.Chtimes(f, time.Time{}, time.Now().Add(-time.Hour)))
	}
	for _, there := range []bool{true, false} { // they prove a death until the second time
		d.store.tidying.at = time.Time{}
		errtest.Must(d.store.Tidy(t.Context()))(t)
		if now := strings.Join(errtest.Must(filepath.Glob(d.store.file.folder.File("*")))(t), " "); strings.Contains(now, left.ID) != there {
			t.Errorf("they are to be there: %v; of %v there is left %v", there, all, now)
		}
	}
	now := errtest.Must(filepath.Glob(d.store.file.folder.File("*")))(t)
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

// Promise: who dies between the commit of a grant and its message is seen to die, and the next one looks.
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
	told := 0
	noError(t, dying.store.change(ctx, false, func(x *tx) error {
		q, err := x.queue("q")
		if err == nil {
			err = errors.Join(q.Leave(exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: held.ID}, Session: exchangetest.RowOf(first.Opened), Clean: true}), x.save())
		}
		told, x.events, x.queues = len(x.events), nil, nil
		return err
	}))
	if told != 1 {
		t.Fatalf("%d messages", told)
	}
	first.dies() // before it sends the message
	errtest.MustBe(t, <-got, nil, "Await of a grant whose message was never sent, since the sender died")
}

// Promise: a waiter far behind, whose client watches the first sessions only, is granted when all in front of it are
// dead.
func TestDeathAmongManySessions(t *testing.T) {
	d := start(t, newFile(t))
	crowd := start(t, d.store.file.path)
	var all []*caller
	for i := range 100 {
		s := begin(t, crowd)
		s.mustJoin(t, mutex("q"), i == 0)
		all = append(all, s)
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
	watches(ctx, t, d, 2)
	for _, o := range all {
		o.dies()
	}
	errtest.MustBe(t, <-got, nil, "Await behind holders that died, more than are watched")
}
