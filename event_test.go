package interlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

type caller struct{}

// record notes the events that have to do with a lock.
type record struct {
	mu     sync.Mutex
	events []interlock.Event
	by     []any             // the caller
	over   []interlock.Event // their context has ended
}

func (r *record) observe() interlock.ClientOption {
	return interlock.Observe(func(ctx context.Context, e interlock.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if e.Kind == interlock.EventRenewed {
			return
		}
		r.events, r.by = append(r.events, e), append(r.by, ctx.Value(caller{}))
		if ctx.Err() != nil {
			r.over = append(r.over, e)
		}
	})
}

func (r *record) kinds() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kinds []string
	for _, e := range r.events {
		kinds = append(kinds, string(e.Kind))
	}
	return strings.Join(kinds, " ")
}

// Each event has its caller's context, and says how long it took.
func TestEvents(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var r record
		w := memlock.NewWorld()
		a := join(t, w, r.observe())
		b := join(t, w)
		me := context.WithValue(ctx, caller{}, "me")
		over, cancel := context.WithCancel(me)
		l := a.Mutex("m")

		lease := errtest.Must(l.Acquire(over))(t)
		cancel() // the lease's events have its values all the same
		local := make(chan *interlock.Lease, 1)
		go func() {
			lease, err := l.Acquire(me)
			if err != nil {
				t.Error(err)
			}
			local <- lease
		}()
		time.Sleep(50 * time.Millisecond)
		wantErr(t, errOf(l.TryAcquire(me)), interlock.ErrBusy)
		ok(t, lease.Release())
		second := <-local
		a.faults().Before("Renew", 0).Fail()
		<-second.Done()
		synctest.Wait()
		a.faults().Clear()
		wantErr(t, second.Release(), interlock.ErrLost)
		synctest.Wait()
		holder := acquire(t, b.Mutex("m"))
		waits := async(me, l)
		synctest.Wait()
		a.faults().Expire()
		time.Sleep(time.Second)
		ok(t, holder.Release())
		ok(t, (<-waits).lease.Release())

		want := "acquired waiting gave-up released handed-over in-doubt lost waiting session rejoined acquired released"
		kinds := r.kinds()
		kinds = strings.Replace(kinds, "rejoined session", "session rejoined", 1) // as it happens
		kinds = strings.Replace(kinds, "handed-over released", "released handed-over", 1)
		if kinds != want {
			t.Errorf("events: %s\nwant:   %s", kinds, want)
		}
		for _, e := range r.over { // an exporter would not take it
			t.Errorf("%+v has a context that has ended", e)
		}
		for i, e := range r.events {
			if e.Kind != interlock.EventSession && (e.Name != "m" || r.by[i] != "me") {
				t.Errorf("%+v by %v", e, r.by[i])
			}
			if e.Time.IsZero() {
				t.Errorf("%+v has no time", e)
			}
			switch e.Kind {
			case interlock.EventReleased:
				if e.Token == lease.Token() && e.Took != 50*time.Millisecond {
					t.Errorf("held for %v", e.Took)
				}
			case interlock.EventHandedOver:
				if e.Took != 50*time.Millisecond || e.Token != second.Token() {
					t.Errorf("%+v", e)
				}
			case interlock.EventGaveUp:
				wantErr(t, e.Err, interlock.ErrBusy)
			case interlock.EventInDoubt:
				wantErr(t, e.Err, memlock.ErrFailed)
			case interlock.EventLost, interlock.EventRejoined:
				if e.Err == nil {
					t.Errorf("%+v does not say why", e)
				}
			}
		}
	})
}

// told is a short form of the events, without sessions and retries: the acquires are numbered in the order in which
// they come.
func (r *record) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var short []string
	numbers := map[uint64]int{0: 0}
	for _, e := range r.events {
		switch e.Kind {
		case interlock.EventSession, interlock.EventRetry:
			continue // as it happens
		}
		if _, known := numbers[e.ID]; !known {
			numbers[e.ID] = len(numbers)
		}
		text := fmt.Sprintf("%d:%s", numbers[e.ID], e.Kind)
		if e.Kind == interlock.EventReleased && e.Err != nil {
			text += fmt.Sprintf("(%v)", e.Err)
		}
		short = append(short, text)
	}
	return strings.Join(short, " ")
}

// Whoever counts waiters and holders by the ID counts right, whichever way an acquire and a lease end.
func TestEachAcquireAndLeaseEndsOnce(t *testing.T) {
	busy := func(t *testing.T, a, b member) { acquire(t, b.Mutex("m")) }
	away := func(t *testing.T, a, b member) {
		a.faults().Before("Open", 0).Fail()
		a.faults().Expire()
		synctest.Wait()
	}
	for _, c := range []struct {
		name, want string
		before, do func(t *testing.T, a, b member)
	}{
		{"released", "1:acquired 1:released", nil, func(t *testing.T, a, _ member) {
			lease := acquire(t, a.Mutex("m"))
			ok(t, lease.Release())
			ok(t, lease.Release())
		}},
		{"tried", "1:gave-up", busy, func(t *testing.T, a, _ member) {
			wantErr(t, errOf(a.Mutex("m").TryAcquire(ctx)), interlock.ErrBusy)
		}},
		{"waited in vain", "1:waiting 1:gave-up", busy, func(t *testing.T, a, _ member) {
			wantErr(t, errOf(a.Mutex("m", interlock.Wait(time.Second)).Acquire(ctx)), interlock.ErrBusy)
		}},
		{"not sent", "1:waiting 2:waiting 1:gave-up 2:gave-up", busy, func(t *testing.T, a, _ member) {
			for range 2 {
				go a.Mutex("m", interlock.Wait(time.Second)).Acquire(ctx)
				time.Sleep(time.Millisecond)
			}
			time.Sleep(2 * time.Second)
		}},
		{"refused", "1:gave-up", nil, func(t *testing.T, a, _ member) {
			wantErr(t, errOf(a.Mutex("").Acquire(ctx)), interlock.ErrInvalid)
		}},
		{"tried without a session", "1:gave-up", away, func(t *testing.T, a, _ member) {
			wantErr(t, errOf(a.Mutex("m").TryAcquire(ctx)), interlock.ErrUnavailable)
		}},
		{"waited for a session", "1:waiting 1:gave-up", away, func(t *testing.T, a, _ member) {
			wantErr(t, errOf(a.Mutex("m", interlock.Wait(time.Second)).Acquire(ctx)), interlock.ErrUnavailable)
		}},
		{"failed again and again", "1:waiting 1:gave-up", nil, func(t *testing.T, a, _ member) {
			a.faults().Before("Join", 0).Fail()
			wantErr(t, errOf(a.Mutex("m", interlock.Wait(time.Second)).Acquire(ctx)), interlock.ErrUnavailable)
		}},
		{"nested, and released last", "1:acquired 1:released", nil, func(t *testing.T, a, _ member) {
			l := a.Mutex("m", interlock.Reentrant())
			lease := acquire(t, l)
			held, cancel := lease.Bind(ctx)
			defer cancel()
			nested := errtest.Must(l.Acquire(held))(t)
			ok(t, lease.Release())
			ok(t, nested.Release())
		}},
		{"lost", "1:acquired 1:lost", nil, func(t *testing.T, a, _ member) {
			lease := acquire(t, a.Mutex("m"))
			a.faults().Expire()
			<-lease.Done()
			wantErr(t, lease.Release(), interlock.ErrLost)
		}},
		{"nested and lost", "1:acquired 1:lost", nil, func(t *testing.T, a, _ member) {
			l := a.Mutex("m", interlock.Reentrant())
			err := l.Do(ctx, func(held context.Context) error {
				return l.Do(held, func(held context.Context) error { a.faults().Expire(); <-held.Done(); return nil })
			})
			wantErr(t, err, interlock.ErrLost)
		}},
		{"closed", "1:acquired 1:released", nil, func(t *testing.T, a, _ member) {
			lease := acquire(t, a.Mutex("m"))
			ok(t, a.Close())
			wantErr(t, lease.Release(), interlock.ErrLost)
		}},
		{"left to its end", "1:acquired 1:released(client closed)", nil, func(t *testing.T, a, _ member) {
			acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Minute)))
			ok(t, a.Close())
		}},
		{"adopted", "1:acquired 2:released 1:lost", nil, func(t *testing.T, a, _ member) {
			lease := acquire(t, a.Mutex("m", interlock.ExpiresAfter(time.Minute)))
			ok(t, errtest.Must(a.Adopt(ctx, "m", lease.ID()))(t).Release())
		}},
		{"all, of which one is busy", "1:acquired 2:waiting 2:gave-up 1:released", func(t *testing.T, _, b member) {
			acquire(t, b.Mutex("z"))
		}, func(t *testing.T, a, _ member) {
			waiting, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			wantErr(t, errOf(interlock.All(a.Mutex("a"), a.Mutex("z")).Acquire(waiting)), context.DeadlineExceeded)
		}},
	} {
		simulatedAs(t, c.name, func(t *testing.T) {
			var r record
			w := memlock.NewWorld()
			a, b := join(t, w, r.observe()), join(t, w)
			if c.before != nil {
				c.before(t, a, b)
			}
			c.do(t, a, b)
			synctest.Wait()
			if got := r.told(); got != c.want {
				t.Errorf("events: %s\nwant:   %s", got, c.want)
			}
			for _, e := range r.events {
				if e.ID != 0 && (e.LockKind != "mutex" || e.Units != 1) {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

// Who has not come to the line of the backend, since many of this client are on their way, waits, too.
func TestWhoComesLaterWaits(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var r record
		a := join(t, memlock.NewWorld(), r.observe())
		joins := a.faults().Before("Join", 0).Hang()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				_ = a.Mutex("m", interlock.StrictOrder()).Do(ctx, func(context.Context) error { return nil })
			})
		}
		synctest.Wait()
		if n := strings.Count(r.told(), ":waiting"); n != 36 { // 64 are on their way
			t.Errorf("%d wait", n)
		}
		joins.Deliver()
		all.Wait()
	})
}

// A nested acquire is no event of its own.
func TestNestedAcquiresAreNoEvents(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var r record
		a := join(t, memlock.NewWorld(), r.observe())
		l := a.Mutex("m", interlock.Reentrant())
		ok(t, l.Do(ctx, func(held context.Context) error {
			return l.Do(held, func(context.Context) error { return nil })
		}))
		if got := r.kinds(); got != "acquired released" {
			t.Errorf("events: %s", got)
		}
	})
}

func TestTheLogWarnsOfWhatEndangersLocks(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var out bytes.Buffer
		a := join(t, memlock.NewWorld(), interlock.Logger(slog.New(slog.NewTextHandler(&out, nil))))
		lease := acquire(t, a.Mutex("m"))
		ok(t, lease.Release())
		if out.Len() > 0 {
			t.Errorf("it is not silent while all is well: %s", &out)
		}
		lease = acquire(t, a.Mutex("m"))
		a.faults().Before("Renew", 0).Fail()
		<-lease.Done()
		synctest.Wait()
		a.faults().Expire()
		synctest.Wait()
		for _, want := range []string{
			`level=WARN msg="interlock: in-doubt" name=m token=`,
			`level=WARN msg="interlock: lost" name=m token=`,
			`level=INFO msg="interlock: session"`,
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %s in\n%s", want, &out)
			}
		}
	})
}

// Errors name the operation and the lock.
func TestErrorsNameTheLock(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a := join(t, memlock.NewWorld(), interlock.Prefix("app/"))
		acquire(t, a.Mutex("m"))
		_, err := a.Mutex("m").TryAcquire(ctx)
		var e *interlock.Error
		if !errors.As(err, &e) || e.Op != "acquire" || e.Name != "m" || e.Err != interlock.ErrBusy {
			t.Errorf("%#v", err)
		}
		if err.Error() != "interlock: acquire m: busy" {
			t.Errorf("%q", err)
		}
	})
}

// A lease that was given to a goroutine just as it gave up is given back, and is none that somebody released.
func TestALeaseThatNobodyHadIsNoEvent(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the waiter runs when both have happened
	simulated(t, func(t *testing.T) {
		var r record
		a := join(t, memlock.NewWorld(), r.observe())
		gaveUp := 0
		for range 200 {
			holder := acquire(t, a.Mutex("m"))
			waiting, cancel := context.WithCancel(ctx)
			w := async(waiting, a.Mutex("m"))
			synctest.Wait()
			ok(t, holder.Release())
			cancel()
			if r := <-w; r.lease != nil {
				ok(t, r.lease.Release())
			} else {
				gaveUp++
			}
			synctest.Wait()
		}
		count := map[interlock.EventKind]int{}
		for _, e := range r.events {
			count[e.Kind]++
		}
		had := count[interlock.EventAcquired] + count[interlock.EventHandedOver]
		if released := count[interlock.EventReleased]; released != had || gaveUp == 0 {
			t.Errorf("%d released, %d acquired, %d gave up", released, had, gaveUp)
		}
		nothingLeft(t, a)
	})
}

// A lease that is lost before its acquire has returned: observers hear of the acquire first.
func TestALossComesAfterTheAcquire(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var r record
		var a member
		a = join(t, memlock.NewWorld(), interlock.Observe(func(_ context.Context, e interlock.Event) {
			if e.Kind == interlock.EventAcquired {
				a.faults().Expire()
				time.Sleep(2 * ttl) // it was lost long ago
			}
		}), r.observe())
		errtest.Must(a.Mutex("m").Acquire(ctx))(t)
		synctest.Wait()
		if got := r.told(); got != "1:acquired 1:lost" {
			t.Errorf("events: %s", got)
		}
	})
}

// Every try fails while the backend is away: observers hear of each, the log once a second.
func TestRetriesAreLoggedOnceASecond(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var out bytes.Buffer
		tries := 0
		a := join(t, memlock.NewWorld(), interlock.Logger(slog.New(slog.NewTextHandler(&out, nil))), interlock.Observe(func(_ context.Context, e interlock.Event) {
			if e.Kind == interlock.EventRetry {
				tries++
			}
		}))
		a.faults().Before("Join", 0).Fail()
		wantErr(t, errOf(a.Mutex("m", interlock.Wait(5*time.Second)).Acquire(ctx)), interlock.ErrUnavailable)
		logged := strings.Count(out.String(), `level=INFO msg="interlock: retry" name=m error=`)
		if logged < 2 || logged > 6 || tries <= logged {
			t.Errorf("%d tries, %d logged:\n%s", tries, logged, &out)
		}
	})
}

// A client tells with each renewal how many exchanges it has made since the last one.
func TestEventsCountExchanges(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var told atomic.Uint64
		a := join(t, memlock.NewWorld(), interlock.Observe(func(_ context.Context, e interlock.Event) { told.Add(e.Exchanges) }))
		for range 3 {
			ok(t, acquire(t, a.Mutex("m")).Release())
			time.Sleep(ttl)
		}
		synctest.Wait()
		if want := a.Admin().Exchanges(); told.Load() != want {
			t.Errorf("%d exchanges were told of, there were %d", told.Load(), want)
		}
	})
}

// Without observers an acquire allocates nothing for them.
func TestAnAcquireIsCheapWithoutObservers(t *testing.T) {
	allocs := func(opts ...interlock.ClientOption) float64 {
		l := join(t, memlock.NewWorld(), opts...).Mutex("m")
		return testing.AllocsPerRun(1000, func() { ok(t, acquire(t, l).Release()) })
	}
	silent, observed := allocs(), allocs(interlock.Observe(func(context.Context, interlock.Event) {}))
	if silent > 9 || observed > silent+3 { // two, and one since averages are rounded down
		t.Errorf("an acquire and a release allocate %v times, %v times with an observer", silent, observed)
	}
}

// Promise: a panic of an observer or a logger is logged, and neither keeps a lock nor ends the program.
func TestAPanicOfAnObserverKeepsNoLock(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(log)
	for what, opts := range map[string][]interlock.ClientOption{
		"an observer": {interlock.Logger(log), interlock.Observe(func(context.Context, interlock.Event) { panic("of a user") })},
		"a logger":    {interlock.Logger(slog.New(panics{log.Handler()}))},
	} {
		simulatedAs(t, what, func(t *testing.T) {
			out.Reset()
			world := memlock.NewWorld()
			ok(t, acquire(t, join(t, world, opts...).Mutex("x")).Release())
			busy(t, join(t, world).Mutex("x"), false)
			if said := out.String(); !strings.Contains(said, what+" has panicked") || !strings.Contains(said, "of a user") {
				t.Errorf("the log is %s", said)
			}
		})
	}
}

type panics struct{ slog.Handler }

func (panics) Enabled(context.Context, slog.Level) bool { panic("of a user") }
