package exchange_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: whoever waits, and asks over a connection that leads nowhere, hears what a
// heartbeat has found out meanwhile over another one.
func TestALookWithoutAnAnswer(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		asked := make(chan struct{}, 100)
		s := opened(t, Script{
			Join:  says(exchange.Status{State: exchange.Waiting, Due: time.Millisecond}),
			Renew: renews(always(held)),
			Settle: func(ctx context.Context, _ string) (bool, error) {
				asked <- struct{}{}
				<-ctx.Done()
				return false, ctx.Err()
			},
			Look: func(ctx context.Context, _ exchange.Session, _ []exchange.Ref) ([]exchange.Status, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			Listen: silent,
		})
		k := joined(t, s)
		got := make(chan driver.Ticket)
		go func() {
			k, err := s.Await(t.Context(), k)
			if err != nil {
				t.Error(err)
			}
			got <- k
		}()
		<-asked
		errtest.Must(s.Renew(t.Context(), []driver.Ticket{k}))(t)
		select {
		case k := <-got:
			if !k.Held || k.Token != 7 {
				t.Errorf("%+v", k)
			}
		case <-time.After(10 * exchange.LookTimeout):
			t.Fatal("it waits for ever")
		}
	})
}

// Promise: what somebody has asked of a held ticket before its client listened is told
// once it listens, and not by the next heartbeat only.
func TestADemandBeforeTheClientListened(t *testing.T) {
	t.Parallel()
	s := opened(t, Script{
		Join: says(held), Look: sees(always(exchange.Status{State: exchange.Held, Token: 7, Revoked: true})),
		Listen: listens(closed(), nil),
	})
	k := joined(t, s)
	defer exchange.DriverOf(s).ExpectEvents()() // as a call that waits for something else
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got, err := s.Signals(ctx); err != nil || got.Demand != driver.Revoke || got.ID != k.ID {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Promise: the look for news that were missed before a client listened is repeated until it has
// an answer, and does not wait for the next heartbeat.
func TestALookThatFailsIsRepeated(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		looks := 0
		s := opened(t, Script{
			Join: says(waits),
			Look: func(ctx context.Context, session exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
				if looks++; looks < 3 {
					return nil, errors.New("canceling statement due to user request")
				}
				return sees(always(held))(ctx, session, refs)
			},
			Listen: listens(closed(), nil),
		})
		k := joined(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if k, err := s.Await(ctx, k); err != nil || k.Token != 7 || looks != 3 {
			t.Errorf("after %d looks: %+v, %v", looks, k, err)
		}
	})
}

// Promise: whoever follows a queue or watches a cell over a connection that leads nowhere
// tries another one, also if the server is slow to answer there.
func TestAReadWithoutAnAnswer(t *testing.T) {
	calls := map[string]func(context.Context, *exchange.Driver) error{
		"Follow": func(ctx context.Context, d *exchange.Driver) error {
			q, err := d.Follow(ctx, "q", "other")
			if err == nil && q.Name != "q" {
				t.Errorf("%+v", q)
			}
			return err
		},
		"Watch": func(ctx context.Context, d *exchange.Driver) error {
			c, err := d.Watch(ctx, "a/value", 6)
			if err == nil && c.Version != 7 {
				t.Errorf("%+v", c)
			}
			return err
		},
	}
	for name, call := range calls {
		for _, takes := range []time.Duration{0, 2 * exchange.LookTimeout} {
			bubble.Run(t, func(t *testing.T) {
				d, reads := frozen(3, takes)
				defer d.Close()
				began := time.Now()
				if err := call(t.Context(), d); err != nil || reads.Load() > 10 {
					t.Errorf("%s: after %d reads: %v", name, reads.Load(), err)
				}
				if took := time.Since(began); took > 30*exchange.LookTimeout {
					t.Errorf("%s: after %v", name, took)
				}
			})
		}
		bubble.Run(t, func(t *testing.T) {
			d, _ := frozen(1, 0)
			defer d.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := call(ctx, d); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: the end of its context while it reads: %v", name, err)
			}
		})
	}
}

// frozen is a driver of which the first reads have no answer, and the others a late one.
func frozen(first int64, takes time.Duration) (*exchange.Driver, *atomic.Int64) {
	var reads atomic.Int64
	answer := func(ctx context.Context) error {
		if reads.Add(1) <= first {
			<-ctx.Done()
			return ctx.Err()
		}
		return backoff.Sleep(ctx, takes)
	}
	store := newScripted()
	store.Script = Script{
		Read: func(ctx context.Context, queue string, _ exchange.Follower) (exchange.Snapshot, error) {
			return exchange.Snapshot{Queue: driver.Queue{Name: queue, Kind: driver.Mutex, Capacity: 1}}, answer(ctx)
		},
		Load: func(ctx context.Context, _ string, _ exchange.Follower) (driver.Cell, error) {
			return driver.Cell{Version: 7}, answer(ctx)
		},
		Listen: silent,
	}
	return store.Driver(), &reads
}

// Promise: polls take about a tenth of the time where they are slow, however often calls begin: not more, since others
// poll too, and not none.
func TestPollsAreNeitherDenseNorStarved(t *testing.T) {
	for _, listens := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var looks atomic.Int64
			store := newScripted()
			store.Script = Script{
				Join:   says(waits),
				Listen: func(context.Context, string, func(), func(exchange.Event)) error { return errors.New("refused") },
				Look: sees(func() exchange.Status {
					looks.Add(1)
					time.Sleep(100 * time.Millisecond)
					return waits
				}),
			}
			s := over(t, rowless{Store: store, traits: exchange.Traits{Bounded: true, Listens: listens}})
			k := joined(t, s)
			for range 100 { // a new Await each 100 ms
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				_, _ = s.Await(ctx, k)
				cancel()
			}
			if n := looks.Load(); n < 5 || n > 11 {
				t.Errorf("listens %v: %d polls of 100 ms in 10 s", listens, n)
			}
		})
	}
}

// Promise: a client that hears nothing polls for a call that begins while it rests, since no other call expects events.
func TestACallThatEndsTheRestIsPolledFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		s := opened(t, Script{
			Join: says(waits), Listen: silent, Look: sees(func() exchange.Status { looks.Add(1); return waits }),
		})
		k := joined(t, s)
		for call := range 2 {
			before := looks.Load()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = s.Await(ctx, k)
			cancel()
			if looks.Load() == before {
				t.Errorf("no poll in the second of call %d", call+1)
			}
			time.Sleep(5 * time.Second)
		}
	})
}
