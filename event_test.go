package interlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
)

type caller struct{}

// record notes the events that have to do with a lock.
type record struct {
	mu     sync.Mutex
	events []interlock.Event
	by     []any // the caller
}

func (r *record) observe() interlock.ClientOption {
	return interlock.Observe(func(ctx context.Context, e interlock.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if e.Kind == interlock.EventRenewed {
			return
		}
		r.events, r.by = append(r.events, e), append(r.by, ctx.Value(caller{}))
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

		lease, err := l.Acquire(over)
		ok(t, err)
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
		_, err = l.TryAcquire(me)
		wantErr(t, err, interlock.ErrBusy)
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

		want := "acquired gave-up released handed-over in-doubt lost session rejoined acquired released"
		kinds := r.kinds()
		kinds = strings.Replace(kinds, "rejoined session", "session rejoined", 1) // as it happens
		kinds = strings.Replace(kinds, "handed-over released", "released handed-over", 1)
		if kinds != want {
			t.Errorf("events: %s\nwant:   %s", kinds, want)
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
