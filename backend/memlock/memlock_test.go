package memlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

func TestAURLNamesAWorld(t *testing.T) {
	ctx := t.Context()
	open := func(url string) driver.Session {
		t.Helper()
		u, err := driver.ParseURL(url)
		ok(t, err)
		d, err := driver.OpenURL(ctx, u)
		ok(t, err)
		t.Cleanup(func() { d.Close() })
		s, err := d.Open(ctx, driver.SessionOptions{TTL: ttl})
		ok(t, err)
		return s
	}
	name := "mem:" + newID()
	for _, tt := range []struct {
		first, second string
		shared        bool
	}{{"mem:", "mem:", false}, {name, name, true}, {name + "1", name + "2", false}} {
		first, second := open(tt.first), open(tt.second)
		join(t, first, mutex("q"))
		if k := join(t, second, mutex("q")); k.Held == tt.shared {
			t.Errorf("%s and %s: both hold it: %v", tt.first, tt.second, k.Held)
		}
		ok(t, first.Close(ctx))
		ok(t, second.Close(ctx))
	}
	for _, wrong := range []string{"mem:?poll=1s", "mem://host/name"} {
		u, err := driver.ParseURL(wrong)
		ok(t, err)
		if _, err := driver.OpenURL(ctx, u); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

func TestASessionHasItsOwnIDAndTheTTLThatWasAsked(t *testing.T) {
	d := memlock.New()
	defer d.Close()
	seen := map[string]bool{}
	for _, ttl := range []time.Duration{time.Millisecond, time.Hour} {
		s, err := d.Open(t.Context(), driver.SessionOptions{TTL: ttl})
		ok(t, err)
		if seen[s.ID] || s.ID == "" {
			t.Fatalf("session %q twice", s.ID)
		}
		seen[s.ID] = true
		if got := s.TTL; got != ttl {
			t.Errorf("TTL %v, asked for %v", got, ttl)
		}
	}
}

func TestCloseEndsEveryCall(t *testing.T) {
	ctx := context.Background()
	d := memlock.New()
	s := open(t, d)
	join(t, s, mutex("q"))
	k := join(t, s, mutex("q"))
	calls := []func() error{
		func() error { _, err := s.Await(ctx, k); return err },
		func() (err error) {
			for err == nil {
				_, err = s.Signals(ctx)
			}
			return err
		},
		func() error { _, err := d.Watch(ctx, "c", 0); return err },
		func() (err error) {
			var q driver.Queue
			for err == nil {
				q, err = d.Follow(ctx, "q", q.Version)
			}
			return err
		},
	}
	done := make(chan error)
	for _, c := range calls {
		go func() { done <- c() }()
	}
	ok(t, d.Close())
	ok(t, d.Close())
	for range calls {
		if err := <-done; !driver.IsPermanent(err) {
			t.Errorf("%v", err)
		}
	}
	if _, err := s.Join(ctx, mutex("q")); !driver.IsPermanent(err) {
		t.Errorf("%v", err)
	}
}

func TestACallWhoseContextHasEndedDoesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d := memlock.New()
	defer d.Close()
	s := open(t, d)
	before := d.Exchanges()
	k := driver.Ticket{ID: newID(), Queue: "q"}
	errs := map[string]error{
		"Leave": s.Leave(ctx, k, true), "Shrink": s.Shrink(ctx, k, 1), "Keep": s.Keep(ctx, k, ttl), "Close": s.Close(ctx),
		"Ask": d.Ask(ctx, "q", k.ID, driver.Revoke), "Raise": d.Raise(ctx, "q", 1),
	}
	_, errs["Open"] = d.Open(ctx, driver.SessionOptions{TTL: ttl})
	_, errs["Join"] = s.Join(ctx, mutex("q"))
	_, errs["Await"] = s.Await(ctx, k)
	_, errs["Renew"] = s.Renew(ctx, nil)
	_, errs["Signals"] = s.Signals(ctx)
	_, errs["Load"] = d.Load(ctx, "c")
	_, errs["Swap"] = d.Swap(ctx, driver.Swap{ID: newID(), Name: "c"})
	_, errs["Watch"] = d.Watch(ctx, "c", 1)
	_, errs["Follow"] = d.Follow(ctx, "q", "")
	for _, err := range d.Queues(ctx, "") {
		errs["Queues"] = err
	}
	for _, err := range d.Cells(ctx, "") {
		errs["Cells"] = err
	}
	for name, err := range errs {
		t.Run(name, func(t *testing.T) { is(t, err, context.Canceled) })
	}
	if len(errs) != 17 {
		t.Errorf("%d calls", len(errs))
	}
	if n := d.Exchanges(); n != before {
		t.Errorf("%d exchanges", n-before)
	}
}

func TestIdleWaitersCauseNoExchange(t *testing.T) {
	simulated(t, "a thousand for a minute", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := memlock.New()
		defer d.Close()
		s, err := d.Open(ctx, driver.SessionOptions{TTL: time.Hour})
		ok(t, err)
		join(t, s, mutex("q"))
		done := make(chan error)
		const waiters = 1000
		for range waiters {
			k := join(t, s, mutex("q"))
			go func() { _, err := s.Await(ctx, k); done <- err }()
		}
		before := d.Exchanges()
		time.Sleep(time.Minute)
		if n := d.Exchanges() - before; n != 0 {
			t.Errorf("%d exchanges", n)
		}
		cancel()
		for range waiters {
			is(t, <-done, context.Canceled)
		}
	})
}

func TestASharedWorldThatIsIdleCanGoToAnotherBubble(t *testing.T) {
	name := newID()
	for range 3 {
		bubble.Run(t, func(t *testing.T) {
			d := memlock.Shared(name).Driver()
			s := open(t, d)
			join(t, s, mutex("q"))
			began := time.Now()
			time.Sleep(ttl / 2)
			other := open(t, d)
			awaitAt(t, other, join(t, other, mutex("q")), began, ttl)
			ok(t, s.Close(t.Context()))
			ok(t, other.Close(t.Context()))
			ok(t, d.Close())
		})
	}
}
