package interlock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

type caller struct{}

// record notes events.
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
		r.events, r.by = append(r.events, e), append(r.by, ctx.Value(caller{}))
		if ctx.Err() != nil {
			r.over = append(r.over, e)
		}
	})
}

// of returns the events of one kind, once nothing moves any more.
func (r *record) of(kind interlock.EventKind) (of []interlock.Event) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			of = append(of, e)
		}
	}
	return of
}

// kinds are those of the events that have to do with a lock.
func (r *record) kinds() (kinds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind != interlock.EventRenewed {
			kinds = append(kinds, string(e.Kind))
		}
	}
	return kinds
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
		local := begun(me, l.Acquire)
		time.Sleep(50 * time.Millisecond)
		wantErr(t, errOf(l.TryAcquire(me)), interlock.ErrBusy)
		ok(t, lease.Release())
		second := served(t, local).lease
		a.faults().Before("Renew", 0).Fail()
		<-second.Done()
		synctest.Wait()
		a.faults().Clear()
		wantErr(t, second.Release(), interlock.ErrLost)
		synctest.Wait()
		holder := acquire(t, b.Mutex("m"))
		waits := async(me, l)
		a.faults().Expire()
		time.Sleep(time.Second)
		ok(t, holder.Release())
		ok(t, (<-waits).lease.Release())

		want := "acquired waiting gave-up released handed-over in-doubt lost waiting session rejoined acquired released"
		kinds := strings.Join(r.kinds(), " ")
		kinds = strings.Replace(kinds, "rejoined session", "session rejoined", 1) // as it happens
		kinds = strings.Replace(kinds, "handed-over released", "released handed-over", 1)
		failIf(t, kinds != want, "events: %s\nwant:   %s", kinds, want)
		for _, e := range r.over { // an exporter would not take it
			t.Errorf("%+v has a context that has ended", e)
		}
		for i, e := range r.events {
			failIf(t, e.Kind != interlock.EventSession && e.Kind != interlock.EventRenewed && (e.Name != "m" || r.by[i] != "me"), "%+v by %v", e, r.by[i])
			failIf(t, e.Time.IsZero(), "%+v has no time", e)
			switch e.Kind {
			case interlock.EventReleased:
				failIf(t, e.Token == lease.Token() && e.Took != 50*time.Millisecond, "held for %v", e.Took)
			case interlock.EventHandedOver:
				failIf(t, e.Took != 50*time.Millisecond || e.Token != second.Token(), "%+v", e)
			case interlock.EventGaveUp:
				wantErr(t, e.Err, interlock.ErrBusy)
			case interlock.EventInDoubt:
				wantErr(t, e.Err, memlock.ErrFailed)
			case interlock.EventLost, interlock.EventRejoined:
				failIf(t, e.Err == nil, "%+v does not say why", e)
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
		case interlock.EventSession, interlock.EventRetry, interlock.EventRenewed:
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
			held := bind(t, lease)
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
			wantErr(t, errOf(interlock.All(a.Mutex("a"), a.Mutex("z")).Acquire(lasting(t, time.Second))), context.DeadlineExceeded)
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
			equal(t, r.told(), c.want, "events")
			for _, e := range r.events {
				failIf(t, e.ID != 0 && (e.LockKind != "mutex" || e.Units != 1), "%+v", e)
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

func TestTheLogWarnsOfWhatEndangersLocks(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var out bytes.Buffer
		a := join(t, memlock.NewWorld(), interlock.Logger(slog.New(slog.NewTextHandler(&out, nil))))
		lease := acquire(t, a.Mutex("m"))
		ok(t, lease.Release())
		failIf(t, out.Len() > 0, "it is not silent while all is well: %s", &out)
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
			failIf(t, !strings.Contains(out.String(), want), "no %s in\n%s", want, &out)
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
			ok(t, holder.Release())
			cancel()
			if r := <-w; r.lease != nil {
				ok(t, r.lease.Release())
			} else {
				gaveUp++
			}
			synctest.Wait()
		}
		had := len(r.of(interlock.EventAcquired)) + len(r.of(interlock.EventHandedOver))
		equal(t, len(r.of(interlock.EventReleased)), had, "released")
		failIf(t, gaveUp == 0, "all had it")
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
		got := r.told()
		failIf(t, got != "1:acquired 1:lost", "events: %s", got)
	})
}

// Every try fails while the backend is away: observers hear of each, the log once a second.
func TestRetriesAreLoggedOnceASecond(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var out bytes.Buffer
		var r record
		a := join(t, memlock.NewWorld(), interlock.Logger(slog.New(slog.NewTextHandler(&out, nil))), r.observe())
		a.faults().Before("Join", 0).Fail()
		wantErr(t, errOf(a.Mutex("m", interlock.Wait(5*time.Second)).Acquire(ctx)), interlock.ErrUnavailable)
		logged := strings.Count(out.String(), `level=INFO msg="interlock: retry" name=m error=`)
		tries := len(r.of(interlock.EventRetry))
		failIf(t, logged < 2 || logged > 6 || tries <= logged, "%d tries, %d logged:\n%s", tries, logged, &out)
	})
}

// A client tells with each renewal how many exchanges it has made since the last one.
func TestEventsCountExchanges(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var r record
		a := join(t, memlock.NewWorld(), r.observe())
		for range 3 {
			ok(t, acquire(t, a.Mutex("m")).Release())
			time.Sleep(ttl)
		}
		told := uint64(0)
		for _, e := range r.of(interlock.EventRenewed) {
			told += e.Exchanges
		}
		equal(t, told, a.Admin().Exchanges(), "exchanges that were told of")
	})
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
			said := out.String()
			failIf(t, !strings.Contains(said, what+" has panicked") || !strings.Contains(said, "of a user"), "the log is %s", said)
		})
	}
}

type panics struct{ slog.Handler }

func (panics) Enabled(context.Context, slog.Level) bool { panic("of a user") }
