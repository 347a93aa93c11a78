package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

// open makes an engine of a new world.
func open(t *testing.T) *Engine {
	t.Helper()
	e, err := New(t.Context(), memlock.NewWorld().Driver(), Config{TTL: 15 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mutex(name string) *Request {
	return &Request{Name: name, Queue: name, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

// lease is one that was not acquired yet.
func lease(r *Request) *Lease {
	l := &Lease{}
	l.Init(nobody{}, r)
	return l
}

// nobody is told of everything, and wants nothing.
type nobody struct{}

func (nobody) BeginWait(ctx context.Context, _ string) (context.Context, func()) {
	return ctx, func() {}
}
func (nobody) CapacitySet(context.Context) (int64, bool, error) { return 0, false, nil }
func (nobody) Waits()                                           {}
func (nobody) Retries(error)                                    {}
func (nobody) Rejoined(error)                                   {}
func (nobody) Released(time.Duration, error)                    {}
func (nobody) Lost(time.Time, error)                            {}
func (nobody) InDoubt(time.Time, error)                         {}
func (nobody) Overruns(time.Duration, error)                    {}

// The first session of a client is checked as those that follow it.
func TestNoSessionIsGivenWrongArguments(t *testing.T) {
	e := open(t)
	defer e.Close()
	s, err := e.session(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.s.Leave(t.Context(), driver.Ticket{ID: "none", Queue: "q"}, true); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Leave of a ticket that can have no such ID: %v", err)
	}
}

// Of a client so many come to a line at once as are enough; others one after the other, with
// rests that are the longer the slower the backend is, or together when few are left. Who
// gives up before that has not come, and keeps nobody from it.
func TestACrowdComesSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took, more = 10 * time.Millisecond, 20
		ctx := t.Context()
		q := &queue{e: &Engine{ctx: t.Context()}}
		q.refs.Add(1)
		var mu sync.Mutex
		var came []int
		join := func(ctx context.Context, n int) {
			slow, err := q.joins.begin(ctx, q, &ticket{q: q}, nil)
			if err != nil {
				return
			}
			sent := time.Now()
			mu.Lock()
			came = append(came, n)
			mu.Unlock()
			time.Sleep(took)
			if slow {
				q.joins.restAfter(q, sent)
			}
		}
		end := func() {
			q.mu.Lock()
			defer q.unlock()
			q.joins.end(&ticket{q: q, placed: placed{joins: true}})
		}
		have := func() (n, last int) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(came), came[len(came)-1]
		}
		for n := range Crowded {
			go join(ctx, n)
		}
		if n, _ := have(); n != Crowded {
			t.Fatalf("%d come at once", n)
		}
		early, cancel := context.WithCancel(ctx)
		for n := range more {
			mine := ctx
			if n%2 == 1 {
				mine = early
			}
			go join(mine, Crowded+n)
			synctest.Wait()
		}
		cancel()
		if n, _ := have(); n != Crowded+1 {
			t.Errorf("%d more come at once", n-Crowded)
		}
		for n := 2; n <= more/2; n++ {
			time.Sleep((1+rest)*took - time.Microsecond)
			before, _ := have()
			time.Sleep(time.Microsecond)
			if after, last := have(); before != Crowded+n-1 || after != Crowded+n || last != Crowded+2*(n-1) {
				t.Errorf("after %d rests %d have come, at their end %d; the last is %d", n-1, before, after, last)
			}
		}
		for range 2 { // enough are left
			go join(ctx, -1)
		}
		time.Sleep(time.Hour)
		for range Crowded + more/2 + 2 {
			end()
		}
		if q.joins.joined != 0 || !q.joins.coming.empty() {
			t.Errorf("it remembers %+v", q.joins)
		}

		// When few are left, others come together, without a rest.
		mu.Lock()
		came = nil
		mu.Unlock()
		for n := range Crowded + few + 5 {
			go join(ctx, n)
			synctest.Wait()
		}
		for range Crowded - few {
			end()
		}
		if n, _ := have(); n != Crowded+1 {
			t.Errorf("%d have come though more than few are left", n)
		}
		end()
		if n, _ := have(); n != Crowded+1+Crowded-few {
			t.Errorf("%d have come when few were left, want %d", n, Crowded+1+Crowded-few)
		}
		time.Sleep(time.Hour) // until all have their answers
	})
}

// A session that has ended loses the tickets that are listed by then. So none is listed for it later: it would wait
// for ever.
func TestNoTicketIsListedForASessionThatHasEnded(t *testing.T) {
	e := open(t)
	defer e.Close()
	ended := e.sess.Load()
	ended.over(driver.ErrSession)
	q := e.queue("q")
	defer q.leave()
	k := q.ticketAs(mutex("q"), NewID())
	if err := q.list(k, ended); !errors.Is(err, driver.ErrSession) || e.tickets.Load() != 0 {
		t.Errorf("%v; %d tickets are listed", err, e.tickets.Load())
	}
	if err := k.enroll(t.Context(), nil); err != nil || k.sess == ended {
		t.Errorf("%v; it is of the session that has ended: %v", err, k.sess == ended)
	}
	k.drop()
}

// A ticket that leaves makes room for another one of the client.
func TestATicketThatLeavesMakesRoomForAnother(t *testing.T) {
	e := open(t)
	defer e.Close()
	q := e.queue("q")
	defer q.leave()
	k := q.ticketAs(mutex("q"), NewID())
	if err := k.enroll(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := q.joins.begin(t.Context(), q, k, nil); err != nil || q.joins.joined != 1 {
		t.Fatalf("%v; %d have joined", err, q.joins.joined)
	}
	if k.drop(); q.joins.joined != 0 {
		t.Errorf("%d have joined after the end of all", q.joins.joined)
	}
}

// Close waits for the functions of Do that run when it begins, and for no others: none may start after that.
func TestNoFunctionOfDoStartsOnceCloseHasBegun(t *testing.T) {
	e := open(t)
	defer e.Close()
	l := lease(mutex("m"))
	if _, err := e.Acquire(t.Context(), l, false); err != nil {
		t.Fatal(err)
	}
	e.closing.Store(true)
	err := l.EnterBody()
	if e.closing.Store(false); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}
