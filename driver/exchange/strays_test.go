package exchange_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a heartbeat does not wait for long for the queue of a stray that somebody else
// has locked: it extends what it names. Until that queue is free the next ones do not wait
// at all.
func TestAStrayWhoseQueueIsLocked(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		free := make(chan struct{})
		var under, most, done atomic.Int32
		s := opened(t, Script{
			Join: says(held),
			Detach: func(ctx context.Context, _ exchange.Session, strays []exchange.Ref) error {
				most.Store(max(most.Load(), under.Add(1)))
				defer under.Add(-1)
				select {
				case <-free:
					done.Add(int32(len(strays)))
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
			Renew: func(ctx context.Context, session exchange.Session, refs []exchange.Ref, _ int) (exchange.Renewal, error) {
				r, err := renews(always(held))(ctx, session, refs, 0)
				for i := range r.Tickets {
					r.Tickets[i].Stray = done.Load() > 0 && i > 0
				}
				return r, err
			},
		})
		held, stray := joined(t, s), joined(t, s)
		for n := range 4 {
			time.Sleep(s.TTL / 100)
			began, before := time.Now(), exchange.DriverOf(s).Now()
			got, err := s.Renew(t.Context(), []driver.Ticket{held})
			took := time.Since(began)
			if err != nil || len(got) != 2 || got[0].ID != held.ID || got[0].State != driver.Kept || got[1].ID != stray.ID || got[1].State != driver.Stray {
				t.Fatalf("the heartbeat says %+v, %v", got, err)
			}
			if took > s.TTL/exchange.StrayShare || got[0].Proof < before {
				t.Errorf("it took %v of a TTL of %v, and its proof is older than itself: %v", took, s.TTL, got[0].Proof < before)
			}
			if n > 0 && took > 0 {
				t.Errorf("heartbeat %d waits for %v again", n, took)
			}
		}
		if n := most.Load(); n != 1 {
			t.Errorf("%d wait for the queue at once", n)
		}
		close(free)
		synctest.Wait()
		if n := done.Load(); n != 1 {
			t.Errorf("%d strays have got their end", n)
		}
	})
}

// Promise: a grant whose fixed time has no proof yet, since its event did not say when that began,
// is not taken for one that has expired by a heartbeat that does not name it.
func TestAFixedEndWithoutAProofHasNotPassed(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		fixed := exchange.Status{State: exchange.Held, Token: 7, Fixed: true, Hold: time.Minute, Left: time.Minute}
		s, send := listening(t, Script{
			Join:  says(exchange.Status{State: exchange.Waiting, Hold: time.Minute}),
			Renew: renews(always(fixed)), Look: sees(always(fixed)),
		})
		time.Sleep(time.Hour) // the clock may begin with the process
		r := request()
		r.Hold = time.Minute
		k := errtest.Must(s.Join(t.Context(), r))(t)
		send(k.ID, exchange.Event{Type: exchange.Granted, Status: exchange.Status{State: exchange.Held, Token: 7, Fixed: true, Hold: time.Minute}})
		errtest.Must(s.Renew(t.Context(), nil))(t)
		if got, err := s.Await(within(t), k); err != nil || !got.Held {
			t.Errorf("after the heartbeat: %+v, %v", got, err)
		}
	})
}

// Promise: a ticket that is named again, though it is a stray, is kept as soon as it has
// lost its own end, by the same heartbeat if that does not take long.
func TestAStrayThatIsNamedAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		var flagged, slow atomic.Bool
		flagged.Store(true)
		slow.Store(true)
		standing := func() exchange.Status {
			return exchange.Status{State: exchange.Held, Token: 7, Stray: flagged.Load(), Left: 10 * time.Second}
		}
		s := opened(t, Script{
			Join: says(held),
			Attach: func(context.Context, exchange.Session, []exchange.Ref) error {
				if slow.Load() {
					time.Sleep(9 * time.Second)
				}
				time.Sleep(time.Second)
				flagged.Store(false)
				return nil
			},
			Renew: renews(standing), Look: sees(standing),
		})
		k := joined(t, s)
		var before driver.Instant
		renew := func() []driver.Renewed {
			t.Helper()
			before = exchange.DriverOf(s).Now()
			got := errtest.Must(s.Renew(t.Context(), []driver.Ticket{k}))(t)
			return got
		}
		kept := func(got []driver.Renewed) {
			t.Helper()
			if len(got) != 1 || got[0].State != driver.Kept || got[0].Proof != before {
				t.Errorf("it is named again, in a heartbeat that was sent at %v: %+v", before, got)
			}
		}
		if got := renew(); len(got) != 0 { // its own end still stands
			t.Errorf("while it still is a stray: %+v", got)
		}
		time.Sleep(10 * time.Second)
		kept(renew())
		flagged.Store(true)
		slow.Store(false)
		kept(renew())
	})
}

// Promise: a ticket that is named again is kept though the queue of another stray is
// locked by somebody else.
func TestAStrayThatIsNamedAgainBesideALockedQueue(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		var flagged atomic.Bool
		flagged.Store(true)
		standing := func() exchange.Status {
			return exchange.Status{State: exchange.Held, Token: 7, Stray: flagged.Load(), Left: time.Minute}
		}
		s := opened(t, Script{
			Join:   says(held),
			Detach: func(ctx context.Context, _ exchange.Session, _ []exchange.Ref) error { <-ctx.Done(); return ctx.Err() },
			Attach: func(context.Context, exchange.Session, []exchange.Ref) error { flagged.Store(false); return nil },
			Renew:  renews(standing), Look: sees(standing),
		})
		all := []driver.Ticket{joined(t, s), joined(t, s)}
		got, err := s.Renew(t.Context(), all[:1])
		if err != nil || len(got) != 2 || got[0].ID != all[0].ID || got[0].State != driver.Kept {
			t.Errorf("the heartbeat says %+v, %v", got, err)
		}
	})
}

// Promise: where sessions have rows, the first exchange of a heartbeat extends all tickets, however
// long those take that read the others: they prove no more than that.
func TestAHeartbeatOfManyTicketsProvesWhatItsFirstExchangeDid(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		look := sees(always(held))
		s := opened(t, Script{
			Join: says(held), Renew: renews(always(held)),
			Look: func(ctx context.Context, o exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
				defer time.Sleep(time.Second)
				return look(ctx, o, refs)
			},
		})
		all := make([]driver.Ticket, 2*exchange.PerLook+1)
		for i := range all {
			all[i] = joined(t, s)
		}
		time.Sleep(time.Second)
		before := exchange.DriverOf(s).Now()
		got, err := s.Renew(t.Context(), all)
		if err != nil || len(got) != len(all) {
			t.Fatal(len(got), err)
		}
		for _, r := range got {
			if r.State != driver.Kept || r.Proof != before {
				t.Fatalf("a heartbeat that was sent at %v says %+v", before, r)
			}
		}
	})
}

// Promise: what a heartbeat has found out about the first tickets is said, if that of the
// others fails: the others are not in the answer.
func TestAHeartbeatThatFailsHalfway(t *testing.T) {
	t.Parallel()
	s := opened(t, Script{
		Join: says(held),
		Renew: func(context.Context, exchange.Session, []exchange.Ref, int) (exchange.Renewal, error) {
			return exchange.Renewal{Tickets: []exchange.Status{held}}, nil
		},
	})
	all := []driver.Ticket{joined(t, s), joined(t, s)}
	if got, err := s.Renew(t.Context(), all); err != nil || len(got) != 1 || got[0].ID != all[0].ID || got[0].State != driver.Kept {
		t.Errorf("the heartbeat says %+v, %v", got, err)
	}
}
