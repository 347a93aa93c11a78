package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/errtest"
	"zombiezen.com/go/sqlite"
)

// stand has the calls stand in line, one behind the other, while the test has the turn,
// and returns when all have returned.
func stand(t *testing.T, d *client, calls ...func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	noError(t, d.store.file.lock.take(ctx, coming))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { call(ctx) })
		lined(t, d, i+1)
	}
	d.store.file.lock.pass()
	all.Wait()
}

// lined returns when so many stand in the lanes of a driver, or wait for these.
func lined(t *testing.T, d *client, want int) {
	t.Helper()
	lock := d.store.file.lock
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Microsecond) {
		lock.mu.Lock()
		found := d.Driver.(*exchange.Driver).Gathered()
		for in := range lock.lanes {
			found += lock.lanes[in].Len()
		}
		lock.mu.Unlock()
		if found == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d stand in line, not %d", found, want)
		}
	}
}

// What leases depend on goes before a crowd of the same process, and Leaves of those who wait
// before Joins, whoever came first.
func TestLeasesGoBeforeACrowd(t *testing.T) {
	d := start(t, newFile(t))
	var order []lane
	var calls []func(context.Context)
	for _, in := range []lane{coming, coming, leaving, keeping, coming, leaving, keeping} {
		calls = append(calls, func(ctx context.Context) {
			if err := d.store.file.lock.take(ctx, in); err != nil {
				t.Error(err)
				return
			}
			order = append(order, in)
			d.store.file.lock.pass()
		})
	}
	stand(t, d, calls...)
	if !slices.IsSorted(order) || len(order) != len(calls) {
		t.Errorf("they had their turns in the order %v", order)
	}
}

// Each kind of call stands in the lane that it belongs to: Renew and the Leave of a lock that
// is held return while Joins wait.
func TestARenewalOvertakesJoins(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	kept, held := s.mustJoin(t, mutex("kept"), true), s.mustJoin(t, mutex("held"), true)
	var committed []string
	watch := func(what string, call func(context.Context) error) func(context.Context) {
		return func(ctx context.Context) {
			if err := call(ctx); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	renew := func(ctx context.Context) error {
		_, err := s.store.Renew(ctx, exchangetest.RowOf(s.Opened), nil, 0)
		return err
	}
	var calls []func(context.Context)
	for range 2 * together {
		waits := s.mustJoin(t, mutex("kept"), false)
		calls = append(calls, watch("Leave of a waiter", func(ctx context.Context) error { return s.Leave(ctx, waits, true) }))
	}
	for range 100 {
		calls = append(calls, watch("Join", func(ctx context.Context) error { _, err := s.Join(ctx, mutex("kept")); return err }))
	}
	calls = append(calls,
		watch("Renew", func(ctx context.Context) error { return renew(ctx) }),
		watch("Leave", func(ctx context.Context) error { return s.Leave(ctx, held, true) }))
	// The file says who was first: whoever joins finds the session as it was renewed.
	if err := script(d.store.file.write, `CREATE TEMP TABLE seen(what TEXT);
		CREATE TEMP TRIGGER renewed AFTER UPDATE ON main.session BEGIN INSERT INTO seen VALUES ('Renew'); END;
		CREATE TEMP TRIGGER left AFTER UPDATE ON main.queue WHEN NEW.name = 'held' BEGIN INSERT INTO seen VALUES ('Leave'); END;
		CREATE TEMP TRIGGER quit AFTER DELETE ON main.ticket BEGIN INSERT INTO seen VALUES ('quit'); END;
		CREATE TEMP TRIGGER joined AFTER INSERT ON main.ticket BEGIN INSERT INTO seen VALUES ('Join'); END`); err != nil {
		t.Fatal(err)
	}
	stand(t, d, calls...)
	alone(t, d, func() {
		noError(t, d.store.file.write.all("SELECT what FROM seen ORDER BY rowid", func(r *sqlite.Stmt) bool {
			committed = append(committed, r.ColumnText(0))
			return true
		}))
	})
	first := committed[:min(3, len(committed))] // with the ticket of the Leave
	if len(committed) < 2*together+102 || !slices.Contains(first, "Renew") || !slices.Contains(first, "Leave") {
		t.Errorf("the file was written in the order %v", committed)
	}
	s.mustLeave(t, kept)
}

// A lock with a fixed end, which is to outlast a power failure, goes alone: gathered with others, it is made all the same.
func TestALockWithAFixedEndIsMadeAmongACrowd(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	var calls []func(context.Context)
	for i := range 2 * together {
		calls = append(calls, func(ctx context.Context) {
			r := mutex(fmt.Sprint("free", i))
			if i%2 == 0 {
				r.Hold = time.Hour
			}
			if tk, err := s.Join(ctx, r); err != nil || !tk.Held {
				t.Errorf("Join %d: %+v, %v", i, tk, err)
			}
		})
	}
	stand(t, d, calls...)
}

// After a full part of a crowd the crowd rests: only what leases depend on has the turn then.
func TestACrowdRests(t *testing.T) {
	lock := newWriteLock(nil, nil)
	lock.busy, lock.begun = true, time.Now().Add(-time.Hour)
	line := func(in lane) <-chan struct{} {
		w := &request{called: make(chan struct{})}
		lock.lanes[in].PushBack(w)
		return w.called
	}
	called := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	first := line(coming)
	lock.rest(together/4 - 1)
	if lock.next(); !called(first) {
		t.Error("a small part has the crowd rest")
	}
	lock.rest(together / 4)
	next := line(coming)
	if lock.next(); called(next) {
		t.Error("the crowd does not rest")
	}
	if renews := line(keeping); true {
		if lock.next(); !called(renews) {
			t.Error("what leases depend on rests with the crowd")
		}
	}
	lock.next()
	select {
	case <-next:
	case <-time.After(limit):
		t.Fatal("the crowd rests for ever")
	}
}

// What fails in a transaction of several leaves nothing in the file, and takes nobody with it.
func TestWhatFailsAmongOthersLeavesNothing(t *testing.T) {
	d := start(t, newFile(t))
	alone(t, d, func() {
		noError(t, script(d.store.file.write, "CREATE TABLE scratch(n INTEGER)"))
	})
	failed := errors.New("failed")
	noError(t, d.store.change(t.Context(), fast, func(t *tx) (err error) {
		for i := range 6 {
			var of, want error
			if i%3 == 1 {
				want = failed
			}
			err = errors.Join(err, t.within(func() error {
				t.out = append(t.out, outgoing{sid: int64(i)})
				return errors.Join(t.exec("INSERT INTO scratch VALUES (?)", i), want)
			}, &of))
			if !errors.Is(of, want) {
				err = errors.Join(err, fmt.Errorf("part %d: %w", i, of))
			}
		}
		if len(t.out) != 4 {
			err = errors.Join(err, fmt.Errorf("%d messages, not those of four parts", len(t.out)))
		}
		t.out = nil
		return err
	}))
	var kept []int
	alone(t, d, func() {
		noError(t, d.store.file.write.all("SELECT n FROM scratch", func(r *sqlite.Stmt) bool {
			kept = append(kept, r.ColumnInt(0))
			return true
		}))
	})
	if !slices.Equal(kept, []int{0, 2, 3, 5}) {
		t.Errorf("the file has what parts %v have written", kept)
	}
}

// What many ask for while they wait for the turn is done in few transactions, in the order
// in which they came. One that fails takes nobody with it.
func TestACrowdIsGathered(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	held := s.mustJoin(t, mutex("q"), true)
	const crowd = 100
	var got [crowd]driver.Ticket
	var calls []func(context.Context)
	for i := range crowd {
		calls = append(calls, func(ctx context.Context) {
			r := mutex("q")
			if i%10 == 3 {
				r.Kind = driver.Semaphore // another one
			}
			var err error
			if got[i], err = s.Join(ctx, r); i%10 == 3 != errors.Is(err, driver.ErrMismatch) {
				t.Errorf("Join %d: %v", i, err)
			}
		})
	}
	before := d.quiet()
	stand(t, d, calls...)
	if used := d.Exchanges() - before; used > crowd/together+3 { // the first goes alone
		t.Errorf("%d Joins were %d transactions", crowd, used)
	}
	last := uint64(0)
	s.mustLeave(t, held)
	for i, tk := range got {
		if tk.ID == "" {
			continue
		}
		tk = s.mustAwait(t, tk)
		if tk.Token <= last {
			t.Errorf("the ticket of Join %d has the token %d after %d", i, tk.Token, last)
		}
		last = tk.Token
		s.mustLeave(t, tk)
	}

	// Many withdraw, together too.
	held = s.mustJoin(t, mutex("q"), true)
	calls = nil
	for range crowd {
		tk := s.mustJoin(t, mutex("q"), false)
		calls = append(calls, func(ctx context.Context) {
			errtest.Is(t, s.Leave(ctx, tk, true), nil, "Leave")
		})
	}
	before = d.Exchanges()
	stand(t, d, calls...)
	if used := d.Exchanges() - before; used > crowd/together+3 {
		t.Errorf("%d Leaves were %d transactions", crowd, used)
	}
	s.mustLeave(t, held)
}

// A grant is told of, though another change of the list has failed.
func TestAGrantIsToldOfBesideOneThatFails(t *testing.T) {
	d := start(t, newFile(t))
	s, other := begin(t, d), begin(t, start(t, d.store.file.path))
	held := s.mustJoin(t, mutex("q"), true)
	next := other.mustJoin(t, mutex("q"), false)
	row := exchangetest.RowOf(s.Opened)
	d.store.Change(t.Context(), []exchange.Change{
		&exchange.Shrink{Ref: exchange.Ref{Queue: "q", ID: exchange.NewID()}, Session: row, Units: 1},
		&exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: held.ID}, Session: row, Clean: true},
	}, func(i int, a exchange.Answer) {
		errtest.Is(t, a.Err, []error{driver.ErrGone, nil}[i], []string{"Shrink of no ticket", "Leave"}[i])
	})
	other.mustAwait(t, next) // nobody renews here
}

// givesUp has a Join be given up while it stands in line behind the test.
func givesUp(t *testing.T, s *caller, d *client, r driver.Request) {
	t.Helper()
	ctx, up := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Join(ctx, r)
		done <- err
	}()
	lined(t, d, 1)
	up()
	errtest.MustBe(t, <-done, context.Canceled, "a Join that was given up")
}

// A Join that was given up before its turn has come to nothing: to leave it writes nothing,
// reads nothing and waits for nobody, and it cannot come later.
func TestAJoinThatNeverCameIsLeftWithoutTheFile(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := mutex("q")
	noError(t, d.store.file.lock.take(ctx, coming))
	before := d.Exchanges()
	for range 2 {
		givesUp(t, s, d, r)
		r.Retry = true
	}
	errtest.Is(t, s.Leave(ctx, driver.Ticket{ID: r.ID, Queue: "q"}, true), driver.ErrGone, "Leave")
	if used := d.Exchanges() - before; used > 0 {
		t.Errorf("%d exchanges for nothing", used)
	}
	d.store.file.lock.pass()
	if _, err := s.Join(ctx, r); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a Join that comes after its Leave: %v", err)
	}
}

// A Join that was repeated, and given up before its turn, may have come the first time: to
// leave it the file is asked.
func TestARepeatedJoinThatIsGivenUpIsLookedFor(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := mutex("q")
	r.Retry = true
	noError(t, d.store.file.lock.take(ctx, coming))
	givesUp(t, s, d, r)
	d.store.file.lock.pass()
	before := d.Exchanges()
	errtest.Is(t, s.Leave(ctx, driver.Ticket{ID: r.ID, Queue: "q"}, true), driver.ErrGone, "Leave")
	if d.Exchanges() == before {
		t.Error("the file was not asked for the ticket of the first Join")
	}
}
