package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// stand has the calls stand in line, one behind the other, while the test has the turn,
// and returns when all have returned.
func stand(t *testing.T, d *client, calls ...func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	noError(t, d.store.file.lock.take(ctx, nil))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { call(ctx) })
		lined(t, d, i+1)
	}
	d.store.file.lock.pass()
	all.Wait()
}

// lined returns when so many have gathered, or wait for the write lock.
func lined(t *testing.T, d *client, want int) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Microsecond) {
		found := d.Driver.(*exchange.Driver).PendingChanges()
		found += waiting()
		if found == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d stand in line, not %d", found, want)
		}
	}
}

// A lock with a fixed end, which is to outlast a power failure, goes alone: gathered with others, it is made all the
// same.
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
	noError(t, d.store.file.lock.take(ctx, nil))
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
	noError(t, d.store.file.lock.take(ctx, nil))
	givesUp(t, s, d, r)
	d.store.file.lock.pass()
	before := d.Exchanges()
	errtest.Is(t, s.Leave(ctx, driver.Ticket{ID: r.ID, Queue: "q"}, true), driver.ErrGone, "Leave")
	if d.Exchanges() == before {
		t.Error("the file was not asked for the ticket of the first Join")
	}
}

// Promise: a look at a long queue whose first tickets have ended shows each of the others once, and ends: nothing is
// written by it, so that it finds again in the file what it has taken out.
func TestALookAtALongQueueOfTheDeadEnds(t *testing.T) {
	t.Parallel()
	d := start(t, newFile(t))
	open := func(ttl time.Duration) *driver.Opened {
		return errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: ttl}))(t)
	}
	permits := func(q string, units int64) driver.Request {
		r := mutex(q)
		r.Kind, r.Units, r.Capacity = driver.Semaphore, units, 100
		return r
	}
	for n := range 16 {
		for _, living := range []int{0, 12} {
			q, dead, alive := fmt.Sprintf("q%d-%d", n, living), open(100*time.Millisecond), open(time.Hour)
			for range n + 1 {
				errtest.Must(dead.Join(t.Context(), permits(q, 100)))(t)
			}
			ended := driver.Now().Add(dead.TTL + 10*time.Millisecond)
			for range living {
				errtest.Must(alive.Join(t.Context(), permits(q, 1)))(t)
			}
			busy.Until(t, "tickets have ended", func() bool { return driver.Now() > ended })
			shown := make(chan map[string]int, 1)
			go func() {
				all := map[string]int{}
				for found := range d.Queues(t.Context(), q) {
					for _, m := range found.Members {
						all[m.ID]++
					}
				}
				shown <- all
			}()
			select {
			case all := <-shown:
				for id, times := range all {
					if times > 1 {
						t.Fatalf("behind %d dead, %s is shown %d times", n+1, id, times)
					}
				}
				if len(all) != living {
					t.Fatalf("behind %d dead, %d of %d are shown", n+1, len(all), living)
				}
			case <-time.After(busy.Bound(10 * time.Second)):
				t.Fatalf("a look at a queue of %d dead does not end", n+1)
			}
		}
	}
}
