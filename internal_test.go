package interlock

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

// The first session of a client is checked as those that follow it.
func TestNoSessionIsGivenWrongArguments(t *testing.T) {
	c, err := New(t.Context(), memlock.NewWorld().Driver())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.e.session(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.s.Leave(t.Context(), driver.Ticket{ID: "none", Queue: "q"}, true); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Leave of a ticket that can have no such ID: %v", err)
	}
}

// Promise: a moment that no calendar has, as a member may write one, keeps nobody from writing a
// listing as JSON.
func TestAMomentThatNoCalendarHas(t *testing.T) {
	c, err := New(t.Context(), memlock.New())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	now := time.Now()
	for _, at := range []time.Time{now, time.UnixMicro(math.MaxInt64), time.UnixMilli(math.MaxInt64), time.UnixMicro(math.MinInt64), time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)} {
		q := c.inspect(driver.Queue{Name: "q", Members: []driver.Member{{Held: true, Since: at, Left: math.MaxInt64}}})
		if _, err := json.Marshal(q); err != nil {
			t.Errorf("%v: %v", at, err)
		}
		if since := q.Holders[0].Since; since != now && !since.IsZero() {
			t.Errorf("%v is shown as %v", at, since)
		}
	}
}

// Promise: in JSON no time stands that is not known, no token of a waiter, and tokens are strings.
func TestALockAsJSON(t *testing.T) {
	c, err := New(t.Context(), memlock.New())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for want, m := range map[string]driver.Member{
		`"id":"h","owner":"o","note":"n","units":1,"token":"1152921504606846976","until":U,"fixed":false`: {ID: "h", Owner: "o", Note: []byte("n"), Units: 1, Token: 1 << (60 - tokenBits), Held: true},
		`"id":"f","owner":"","note":"","units":0,"fixed":false,"foreign":true`:                            {ID: "f", Foreign: true},
		`"id":"g","owner":"","note":"","units":0,"until":U,"fixed":true,"foreign":true`:                   {ID: "g", Foreign: true, Fixed: true},
		`"id":"w","owner":"","note":"","units":0,"until":U,"fixed":false,"at":"a"`:                        {ID: "w", At: "a"},
	} {
		b, _ := json.Marshal(c.inspect(driver.Queue{Name: "q", Kind: "mutex", Members: []driver.Member{m}}))
		got := regexp.MustCompile(`"until":"[^"]*"`).ReplaceAllString(string(b), `"until":U`)
		if want := map[bool]string{true: `[{` + want + `}],"waiters":[]}`, false: `[],"waiters":[{` + want + `}]}`}[m.Held]; got != `{"name":"q","kind":"mutex","holders":`+want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// Of a client so many come to a line at once as are enough; others one after the other, with
// rests that are the longer the slower the backend is, or together when few are left. Who
// gives up before that has not come, and keeps nobody from it.
func TestACrowdComesSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took, more = 10 * time.Millisecond, 20
		ctx := t.Context()
		q := &queue{e: &engine{ctx: t.Context()}}
		q.refs.Add(1)
		var mu sync.Mutex
		var came []int
		join := func(ctx context.Context, n int) {
			answered, err := q.joins.begin(ctx, q, &ticket{q: q}, nil)
			if err != nil {
				return
			}
			mu.Lock()
			came = append(came, n)
			mu.Unlock()
			time.Sleep(took)
			answered()
		}
		end := func() {
			q.mu.Lock()
			defer q.unlock()
			q.joins.end(&ticket{q: q, joins: true})
		}
		have := func() (n, last int) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(came), came[len(came)-1]
		}
		for n := range crowded {
			go join(ctx, n)
		}
		if n, _ := have(); n != crowded {
			t.Fatalf("%d come at once", n)
		}
		early, cancel := context.WithCancel(ctx)
		for n := range more {
			mine := ctx
			if n%2 == 1 {
				mine = early
			}
			go join(mine, crowded+n)
			synctest.Wait()
		}
		cancel()
		if n, _ := have(); n != crowded+1 {
			t.Errorf("%d more come at once", n-crowded)
		}
		for n := 2; n <= more/2; n++ {
			time.Sleep((1+rest)*took - time.Microsecond)
			before, _ := have()
			time.Sleep(time.Microsecond)
			if after, last := have(); before != crowded+n-1 || after != crowded+n || last != crowded+2*(n-1) {
				t.Errorf("after %d rests %d have come, at their end %d; the last is %d", n-1, before, after, last)
			}
		}
		for range 2 { // enough are left
			go join(ctx, -1)
		}
		time.Sleep(time.Hour)
		for range crowded + more/2 + 2 {
			end()
		}
		if q.joins.joined+q.joins.coming.Len() != 0 {
			t.Errorf("it remembers %+v", q.joins)
		}

		// When few are left, others come together, without a rest.
		mu.Lock()
		came = nil
		mu.Unlock()
		for n := range crowded + few + 5 {
			go join(ctx, n)
			synctest.Wait()
		}
		for range crowded - few {
			end()
		}
		if n, _ := have(); n != crowded+1 {
			t.Errorf("%d have come though more than few are left", n)
		}
		end()
		if n, _ := have(); n != crowded+1+crowded-few {
			t.Errorf("%d have come when few were left, want %d", n, crowded+1+crowded-few)
		}
		time.Sleep(time.Hour) // until all have their answers
	})
}

// A session that has ended loses the tickets that are listed by then. So none is listed for it later: it would wait
// for ever.
func TestNoTicketIsListedForASessionThatHasEnded(t *testing.T) {
	c, err := New(t.Context(), memlock.NewWorld().Driver())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ended := c.e.sess.Load()
	ended.over(driver.ErrSession)
	q := c.e.queue("q")
	defer q.leave()
	k := q.ticketAs(&c.Mutex("q").cfg.request, newID())
	if err := q.list(k, ended); !errors.Is(err, driver.ErrSession) || c.e.tickets.Load() != 0 {
		t.Errorf("%v; %d tickets are listed", err, c.e.tickets.Load())
	}
	if err := k.enroll(t.Context(), nil); err != nil || k.sess == ended {
		t.Errorf("%v; it is of the session that has ended: %v", err, k.sess == ended)
	}
	k.drop()
}

// A ticket that leaves makes room for another one of the client.
func TestATicketThatLeavesMakesRoomForAnother(t *testing.T) {
	c, err := New(t.Context(), memlock.NewWorld().Driver())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := c.e.queue("q")
	defer q.leave()
	k := q.ticketAs(&c.Mutex("q").cfg.request, newID())
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
	c, err := New(t.Context(), memlock.NewWorld().Driver())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lease, err := c.Mutex("m").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.e.closing.Store(true)
	err = lease.do(t.Context(), func(context.Context) error { t.Error("it has started"); return nil })
	if c.e.closing.Store(false); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}
