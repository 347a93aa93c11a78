package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// take returns the events of overruns since they were taken last.
func (r *record) take() []interlock.Event {
	all := r.of(interlock.EventOverrun)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
	return all
}

// stubborn is a function of Do that does not look at its context: it goes on until it is told to end.
type stubborn struct {
	begun, end chan struct{}
	result     chan error
}

func (m member) stubborn(l *interlock.Lock) *stubborn {
	s := &stubborn{make(chan struct{}), make(chan struct{}), make(chan error, 1)}
	go func() {
		s.result <- l.Do(ctx, func(context.Context) error {
			close(s.begun)
			<-s.end
			return nil
		})
	}()
	<-s.begun
	return s
}

func (s *stubborn) stop(t *testing.T) {
	t.Helper()
	close(s.end)
	wantErr(t, <-s.result, interlock.ErrLost)
	synctest.Wait()
}

func overruns(t *testing.T, m member, name string) []interlock.Overrun {
	t.Helper()
	synctest.Wait()
	return errtest.Must(m.Admin().Queue(ctx, name))(t).Overruns
}

// Work that goes on after the loss is told of when it has had its time for stopping, each TTL, and
// when it ends; it is counted; and others see it beside the next holder, and of a lock that is free.
func TestWorkThatGoesOnAfterALossIsToldUntilItEnds(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		var o record
		a := join(t, w, interlock.Prefix("app/"), interlock.Owner("a"), o.observe())
		b, c := join(t, w, interlock.Prefix("app/")), join(t, w)
		work := a.stubborn(a.Mutex("m", interlock.Note("why")))
		holder, lost := holder(t, b, "m"), time.Now()
		ok(t, b.Admin().Evict(ctx, "m", holder.ID, true))
		next := acquire(t, b.Mutex("m"))
		for a.Overruns() == 0 { // the heartbeat tells it
			time.Sleep(ttl / 100)
		}
		noticed := time.Now().Add(-time.Second)
		took(t, noticed.Sub(lost), 0, ttl/2, "noticed after")
		all := o.take()
		fatalIf(t, len(all) != 1 || all[0].Name != "m" || all[0].Token != holder.Token || all[0].Took < time.Second || all[0].Took > time.Second+ttl/50, "%+v", all)
		wantErr(t, all[0].Err, interlock.ErrLost)
		for i := 1; i < 4; i++ {
			time.Sleep(ttl)
			all := o.take()
			fatalIf(t, len(all) != 1 || all[0].Err == nil, "after %d TTLs: %+v", i, all)
			took(t, all[0].Took-time.Duration(i)*ttl, time.Second, time.Second+ttl/50, "it overruns since")
			equal(t, a.Overruns(), 1, "leases overrun")
			found := overruns(t, b, "m")
			if len(found) != 1 || found[0].ID != holder.ID || found[0].Owner != "a" || found[0].Note != "why" || found[0].Units != 1 || found[0].Token != holder.Token {
				t.Fatalf("%+v", found)
			}
			took(t, found[0].Since.Sub(noticed), -ttl/50, ttl/50, "it is said to overrun since")
		}
		ok(t, next.Release())
		var names []string
		for q, err := range c.Admin().Queues(ctx, "") {
			ok(t, err)
			names = append(names, q.Name)
			failIf(t, q.Kind != "mutex" || q.Capacity != 1 || len(q.Holders)+len(q.Waiters) > 0 || len(q.Overruns) != 1, "%+v", q)
		}
		failIf(t, !slices.Equal(names, []string{"app/m"}), "listed: %v", names)
		time.Sleep(ttl / 2)
		work.stop(t)
		all = o.take()
		fatalIf(t, len(all) != 1 || all[0].Err != nil, "at the end: %+v", all)
		took(t, all[0].Took-3*ttl-ttl/2, time.Second, time.Second+ttl/50, "it has overrun since")
		equal(t, a.Overruns(), 0, "leases overrun")
		nothingLeft(t, a, b, c)
	})
}

// What ends within a tenth of the TTL, or a second, does not overrun, and costs no exchange.
func TestWorkThatStopsInTimeDoesNotOverrun(t *testing.T) {
	for _, takes := range []time.Duration{0, 999 * time.Millisecond, 1001 * time.Millisecond} {
		simulated(t, func(t *testing.T) {
			var o record
			a, b := pair(t, o.observe())
			var before uint64
			err := a.Mutex("m").Do(ctx, func(ctx context.Context) error {
				ok(t, b.Admin().Evict(context.Background(), "m", interlock.LeaseFrom(ctx).ID(), false))
				<-ctx.Done()
				before = a.Admin().Exchanges()
				time.Sleep(takes)
				return nil
			})
			wantErr(t, err, interlock.ErrLost)
			all, late := o.take(), takes > time.Second
			if used := a.Admin().Exchanges() - before; late != (len(all) == 2) || late != (used > 1) || a.Overruns() != 0 { // one is the release
				t.Errorf("work that took %v: %d exchanges, %+v", takes, used, all)
			}
			nothingLeft(t, a, b)
		})
	}
}

// A bound context is work until its function is called, or the lease is released.
func TestABoundContextIsWorkUntilItIsFreed(t *testing.T) {
	for name, end := range map[string]func(*interlock.Lease, context.CancelFunc){
		"freed":       func(_ *interlock.Lease, free context.CancelFunc) { free() },
		"freed twice": func(_ *interlock.Lease, free context.CancelFunc) { free(); free() },
		"released":    func(l *interlock.Lease, free context.CancelFunc) { _ = l.Release(); _ = l.Release() },
		"never":       nil,
	} {
		simulatedAs(t, name, func(t *testing.T) {
			var o record
			a := join(t, memlock.NewWorld(), o.observe())
			lease := acquire(t, a.Mutex("m"))
			_, first := lease.Bind(ctx)
			_, free := lease.Bind(ctx)
			first()
			a.faults().Expire()
			time.Sleep(ttl)
			equal(t, a.Overruns(), 1, "leases overrun")
			if end == nil {
				ok(t, a.Close()) // does not wait for it
				return
			}
			end(lease, free)
			all := o.take()
			failIf(t, a.Overruns() != 0 || all[len(all)-1].Err != nil, "%d overrun: %+v", a.Overruns(), all)
			_, late := lease.Bind(ctx)
			time.Sleep(ttl)
			if n := a.Overruns(); n != 0 && name == "released" {
				t.Errorf("%d overrun after the release", n)
			} else if n != 1 && name != "released" {
				t.Errorf("%d overrun when work has begun after the loss", n)
			}
			late()
			free()
			_ = lease.Release()
			nothingLeft(t, a)
		})
	}
}

// Each part of a lease of All overruns for itself, and so does a lease of a fixed time.
func TestPartsAndFixedTimesOverrun(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var o record
		a, b := pair(t, o.observe())
		all := a.stubborn(interlock.All(a.Mutex("1"), b.Mutex("2")))
		a.faults().Expire()
		time.Sleep(2 * ttl)
		failIf(t, a.Overruns() != 1 || b.Overruns() != 1, "%d and %d overrun", a.Overruns(), b.Overruns())
		fixed := a.stubborn(a.Mutex("3", interlock.ExpiresAfter(time.Minute)))
		time.Sleep(time.Minute + time.Second)
		equal(t, a.Overruns(), 2, "leases overrun")
		for _, name := range []string{"1", "2", "3"} {
			equal(t, len(overruns(t, b, name)), 1, "records of %s", name)
		}
		all.stop(t)
		fixed.stop(t)
		failIf(t, a.Overruns() != 0 || b.Overruns() != 0, "%d and %d overrun", a.Overruns(), b.Overruns())
		nothingLeft(t, a, b)
	})
}

// Readers who share a ticket are counted one by one, and recorded once.
func TestLeasesOfOneTicketAreRecordedOnce(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		var all []*stubborn
		for range 3 {
			all = append(all, a.stubborn(a.RWMutex("rw").Reader()))
		}
		a.faults().Expire()
		time.Sleep(ttl)
		for i, s := range all {
			n, found := a.Overruns(), overruns(t, b, "rw")
			failIf(t, n != 3-i || len(found) != 1, "%d overrun: %+v", n, found)
			s.stop(t)
		}
	}))
}

// While the backend is away nothing is recorded, and nobody waits for it; once it is back the record says
// since when. It comes again with the next session, and ends with the client.
func TestARecordComesWhenTheBackendIsBackAndEndsWithTheClient(t *testing.T) {
	simulated(t, func(t *testing.T) {
		a, b := pair(t)
		began := time.Now()
		work := a.stubborn(a.Mutex("m"))
		a.faults().Cut()
		time.Sleep(10 * ttl)
		equal(t, a.Overruns(), 1, "leases overrun")
		equal(t, len(overruns(t, b, "m")), 0, "they are recorded")
		a.faults().Heal()
		time.Sleep(2 * ttl)
		found := overruns(t, b, "m")
		fatalIf(t, len(found) != 1 || found[0].Since.Sub(began) > ttl, "%+v; it began at %v", found, began)
		a.faults().Expire()
		time.Sleep(ttl)
		again := overruns(t, b, "m")
		fatalIf(t, len(again) != 1 || again[0].Since.Sub(found[0].Since).Abs() > time.Second, "after another session: %+v", again)
		ok(t, a.Close())
		equal(t, len(overruns(t, b, "m")), 0, "recorded after Close")
		equal(t, a.Overruns(), 0, "leases overrun after Close")
		work.stop(t)
	})
}

// Follow tells of an overrun, and of its end.
func TestFollowTellsOfAnOverrun(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		follow, stop := context.WithCancel(ctx)
		states, ends := make(chan int, 100), make(chan struct{})
		go func() {
			defer close(ends)
			for q, err := range b.Admin().Follow(follow, "m") {
				ok(t, err)
				states <- len(q.Overruns)
			}
		}()
		work := a.stubborn(a.Mutex("m"))
		a.faults().Expire()
		for n := 0; n == 0; n = <-states {
		}
		work.stop(t)
		for n := 1; n == 1; n = <-states {
		}
		stop()
		<-ends
	}))
}

// Names of records are nobody's, and locks stand in the order of their names among those that are free.
func TestRecordsAreNoLocks(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		a, b := join(t, w), join(t, w, interlock.Prefix("~overrun/"))
		wantErr(t, errOf(a.Mutex("~overrun/x").Acquire(ctx)), interlock.ErrInvalid)
		wantErr(t, errOf(b.Mutex("x").Acquire(ctx)), interlock.ErrInvalid)
		wantErr(t, errOf(a.Admin().Queue(ctx, "~overrun/x")), interlock.ErrInvalid)
		ok(t, acquire(t, a.Mutex("~overrun")).Release())

		var all []*stubborn
		long := strings.Repeat("n/", 255) + "nn"
		for _, name := range []string{"b", "d", "~z", long} {
			all = append(all, a.stubborn(a.Mutex(name, interlock.Note(strings.Repeat("\"", driver.MaxNote)))))
		}
		a.faults().Expire()
		time.Sleep(ttl)
		for _, name := range []string{"a", "b", "c", "e"} {
			acquire(t, a.Mutex(name))
		}
		list := func(prefix string) (out string) {
			for q, err := range a.Admin().Queues(ctx, prefix) {
				ok(t, err)
				out += fmt.Sprintf("%.2s%d%d ", q.Name, len(q.Holders), len(q.Overruns))
			}
			return out
		}
		equal(t, list(""), "a10 b11 c10 d01 e10 n/01 ~z01 ", "listed")
		equal(t, list("d"), "d01 ", "listed")
		for q, err := range a.Admin().Queues(ctx, "d") {
			ok(t, err)
			for range 2 { // stops early
				failIf(t, len(q.Overruns[0].Note) == 0, "no note")
			}
			break
		}
		for _, s := range all {
			s.stop(t)
		}
	})
}

// unreadable is a backend that lets nobody read or write records.
type unreadable struct{ *memlock.Driver }

var errDenied = driver.Permanent(errors.New("not allowed"))

func (d unreadable) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	if strings.HasPrefix(queue, "~") {
		return driver.Queue{}, errDenied
	}
	return d.Driver.Follow(ctx, queue, after)
}

func (d unreadable) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	if strings.HasPrefix(prefix, "~") {
		return func(yield func(driver.Queue, error) bool) { yield(driver.Queue{}, errDenied) }
	}
	return d.Driver.Queues(ctx, prefix)
}

// The holder that releases the lease of All is done with each part, also with one that was given back before, since another
// was lost.
func TestReleaseOfAllEndsTheOverrunsOfItsParts(t *testing.T) {
	simulated(t, two(func(t *testing.T, a, b, otherA, _ member) {
		lease := acquire(t, interlock.All(a.Mutex("m"), b.Mutex("n")))
		_ = bind(t, lease) // not freed before the end of the test
		evict(t, otherA, "m", false)
		time.Sleep(3 * a.TTL())
		equal(t, a.Overruns(), 1, "overruns of the part that was evicted")
		equal(t, b.Overruns(), 1, "overruns of the other part")
		wantErr(t, lease.Release(), interlock.ErrLost)
		synctest.Wait()
		equal(t, a.Overruns()+b.Overruns(), 0, "overruns after the release")
	}))
}

// The first state of Follow is no more than a look: a backend does more for each change of a lock that
// somebody follows.
func TestWhoTakesOneStateOfALockDoesNotFollowIt(t *testing.T) {
	simulated(t, func(t *testing.T) {
		waits := 0
		d := hooked{memlock.New(), func(_, after string) {
			if after != "" {
				waits++
			}
		}}
		c := client(t, d)
		for _, err := range c.Admin().Follow(ctx, "m") {
			ok(t, err)
			synctest.Wait()
			break
		}
		equal(t, waits, 0, "calls that have waited for a change")
	})
}

// Who may not read the records sees the locks all the same.
func TestLocksAreShownWithoutTheirRecords(t *testing.T) {
	simulated(t, func(t *testing.T) {
		c := client(t, unreadable{memlock.New()})
		lease := acquire(t, c.Mutex("m"))
		q, err := c.Admin().Queue(ctx, "m")
		ok(t, err)
		failIf(t, len(q.Holders) != 1, "%+v", q)
		n := 0
		for q, err := range c.Admin().Queues(ctx, "") {
			ok(t, err)
			n += len(q.Holders)
		}
		released := false
		for q, err := range c.Admin().Follow(ctx, "m") {
			ok(t, err)
			if n += len(q.Holders); released {
				break
			}
			ok(t, lease.Release())
			released = true
		}
		failIf(t, n != 2, "%d holders are shown", n)
	})
}
