package interlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// One heartbeat serves all leases, waiting ones too: three exchanges per TTL.
func TestOneHeartbeatForAllLeases(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		const leases = 2000
		var held []*interlock.Lease
		for i := range leases {
			held = append(held, acquire(t, a.Mutex(fmt.Sprint("held/", i))))
		}
		var waits []<-chan result
		for i := range 100 {
			waits = append(waits, async(ctx, b.Mutex(fmt.Sprint("held/", i))))
		}
		synctest.Wait()
		before, beforeB := a.Admin().Exchanges(), b.Admin().Exchanges()
		time.Sleep(10 * ttl)
		for what, n := range map[string]uint64{"leases": a.Admin().Exchanges() - before, "waiters": b.Admin().Exchanges() - beforeB} {
			failIf(t, n < 28 || n > 31, "%d exchanges in ten TTLs for many %s", n, what)
		}
		for _, lease := range held {
			ok(t, lease.Err())
			ok(t, lease.Release())
		}
		for _, w := range waits {
			turn(t, w)
		}
	}))
}

// A ticket that the client has given up is not renewed with the others, and is
// given back when the backend reports it.
func TestOnlyKnownTicketsAreRenewed(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		keeps := acquire(t, a.Mutex("keeps"))
		late := a.faults().Before("Join", 1).Hang()
		a.faults().Before("Leave", 0).Fail()
		short, cancel := context.WithCancel(ctx)
		waits := async(short, a.Mutex("m", interlock.StrictOrder()))
		<-late.Reached()
		cancel()
		wantErr(t, (<-waits).err, context.Canceled)
		late.Deliver() // the ticket is at the backend now
		synctest.Wait()
		began := time.Now()
		next := acquire(t, b.Mutex("m"))
		within(t, began, ttl, "a ticket that was given up stood for")
		ok(t, next.Release())
		a.faults().Clear()
		ok(t, keeps.Err())
		ok(t, keeps.Release())
		time.Sleep(2 * ttl)
	}))
}

func TestAStrayTicketIsLeft(t *testing.T) {
	simulated(t, func(t *testing.T) {
		var session driver.Session
		c := client(t, wrapped{memlock.New(), func(s driver.Session) driver.Session { session = s; return s }})
		// A ticket of this session that its client knows nothing of.
		r := driver.Request{ID: "00112233445566778899aabbccddeeff", Queue: "m", Kind: driver.Mutex, Units: 1, Capacity: 1}
		errtest.Must(session.Join(ctx, r))(t)
		began := time.Now()
		lease := acquire(t, c.Mutex("m"))
		within(t, began, ttl/2, "the stray ticket stood for")
		ok(t, lease.Release())
	})
}

// A dead session is replaced: what it held is lost and says so, and who waited
// waits again.
func TestAClientOutlivesItsSessions(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		var r record
		a, b := join(t, w, r.observe()), join(t, w)
		mine := acquire(t, a.Mutex("mine"))
		fixed := acquire(t, a.Mutex("fixed", interlock.ExpiresAfter(time.Hour)))
		holder := acquire(t, b.Mutex("m"))
		waits := []<-chan result{
			async(ctx, a.Mutex("m")), async(ctx, a.Mutex("m")), async(ctx, a.Mutex("m", interlock.StrictOrder())),
		}
		synctest.Wait()
		a.faults().Expire()
		synctest.Wait()
		wantErr(t, mine.Err(), interlock.ErrLost)
		ok(t, fixed.Err())
		ok(t, fixed.Extend(ctx, 2*time.Hour))
		ok(t, acquire(t, a.Mutex("mine")).Release())
		time.Sleep(time.Second)
		ok(t, holder.Release())
		var served sync.WaitGroup
		for _, w := range waits {
			served.Go(func() { turn(t, w) })
		}
		served.Wait()
		equal(t, len(r.of(interlock.EventRejoined)), 2, "rejoined")
		equal(t, len(r.of(interlock.EventSession)), 1, "sessions")
		equal(t, len(r.of(interlock.EventLost)), 1, "lost")
		ok(t, fixed.Release())
		nothingLeft(t, a, b)
	})
}

// While there is no session, acquires wait for one, and tries fail in time with
// the reason.
func TestWithoutASessionAcquireWaits(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		a.faults().Before("Open", 0).Fail()
		a.faults().Expire()
		synctest.Wait()
		time.Sleep(time.Second)
		err := errOf(a.Mutex("m").TryAcquire(ctx))
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, err, memlock.ErrFailed)
		waits := async(ctx, a.Mutex("m"))
		time.Sleep(time.Minute)
		a.faults().Clear()
		turn(t, waits)
	}))
}

// An acquire whose time is over returns also while the session is over, and the next one is not open yet.
func TestAnAcquireEndsInTimeWhileASessionOpens(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		open := a.faults().Before("Open", 0).Hang()
		a.faults().Expire()
		<-open.Reached()
		began := time.Now()
		err := errOf(a.Mutex("m").Acquire(lasting(t, time.Second)))
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, err, interlock.ErrUnavailable)
		within(t, began, 2*time.Second, "returned after")
	}))
}

// Sessions may die at any moment, and calls may fail: two never hold, and
// everybody is served.
func TestSessionsThatDieUnderLoad(t *testing.T) {
	simulated(t, func(t *testing.T) {
		w := memlock.NewWorld()
		judge := &referee{t: t}
		var members []member
		var wg sync.WaitGroup
		for i := range 4 {
			m := join(t, w)
			members = append(members, m)
			for j := range 5 {
				opts := [][]interlock.Option{nil, {interlock.StrictOrder()}, {interlock.Sticky()}}[(i+j)%3]
				l := m.Mutex("m", opts...)
				wg.Go(func() {
					for range 40 {
						_ = judge.hold(l, 10*time.Millisecond)
					}
				})
			}
		}
		done := make(chan struct{})
		go func() {
			wg.Wait()
			close(done)
		}()
		// Not Signals: a session ends here before its TTL, and a holder that does not hear of it would hold
		// beside the next one.
		calls := []string{"Join", "Await", "Leave", "Renew", "Open"}
		for i := 0; !ended(done); i++ {
			time.Sleep(177 * time.Millisecond)
			members[i%4].faults().Expire()
			members[(i+1)%4].faults().After(calls[i%5], 1+i%3).Fail()
			members[(i+2)%4].faults().Before(calls[i/5%5], 1+i%2).Fail()
		}
		for _, m := range members {
			m.faults().Clear()
		}
		time.Sleep(3 * ttl)
		nothingLeft(t, members...)
	})
}

// A backend that grants another TTL than was asked for is taken at its word.
func TestTheGrantedTTLCounts(t *testing.T) {
	simulated(t, func(t *testing.T) {
		c := client(t, short{memlock.New()})
		failIf(t, c.TTL() != 3*time.Second, "TTL %v", c.TTL())
		lease := acquire(t, c.Mutex("m"))
		left := lease.Remaining()
		failIf(t, left > 3*time.Second, "%v remain", left)
		time.Sleep(time.Minute)
		ok(t, lease.Err())
		ok(t, lease.Release())
	})
}

// short grants three seconds.
type short struct{ *memlock.Driver }

func (d short) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	o.TTL = 3 * time.Second
	return d.Driver.Open(ctx, o)
}

// A healthy lease never has less than two fifths of the TTL left, whenever it was granted:
// not if answers take up to a fifth of the TTL, and not if they prove what was so up to three
// tenths of it before. So a pause of a fifth, here or at the backend, ends no work.
func TestAHealthyLeaseAlwaysHasTimeLeft(t *testing.T) {
	for _, ttl := range []time.Duration{interlock.MinTTL, 2 * time.Second, interlock.DefaultTTL, time.Minute} {
		for name, s := range map[string]*slack{
			"all is well":                    {always: true},
			"late answers":                   {late: ttl / 5, always: true},
			"answers that are late at times": {late: ttl / 5},
			"old proofs":                     {old: 3 * ttl / 10, always: true},
			"proofs that are old at times":   {old: 3 * ttl / 10},
		} {
			simulatedAs(t, fmt.Sprint(ttl, " ", name), func(t *testing.T) {
				s.Driver, s.joins = memlock.New(), true
				c := client(t, s, interlock.TTL(ttl))
				time.Sleep(ttl / 5)
				var leases []*interlock.Lease
				granted, asked := make(chan *interlock.Lease, 100), 0
				for began := time.Now(); time.Since(began) < 5*ttl; time.Sleep(ttl / 53) {
					if since := time.Since(began); time.Duration(asked)*ttl/7 < since && since < 3*ttl {
						l := c.Mutex(fmt.Sprint(asked))
						asked++
						go func() {
							if lease, err := l.Acquire(ctx); err != nil {
								t.Error(err)
							} else {
								granted <- lease
							}
						}()
					}
					for len(granted) > 0 {
						leases = append(leases, <-granted)
					}
					for i, l := range leases {
						if left := l.Remaining(); left < 2*ttl/5 {
							t.Fatalf("lease %d of %d has %v left after %v, %.2f of the TTL",
								i, len(leases), left, time.Since(began), float64(left)/float64(ttl))
						}
					}
				}
				failIf(t, len(leases) < 20, "%d leases", len(leases))
			})
		}
	}
}

// slack proves every other time, or always, what was so a while ago, or answers late. With
// joins the proof of a grant is old, too. Proofs of grants are older by grants.
type slack struct {
	driver.Driver
	old, late     time.Duration
	always, joins bool
	grants        atomic.Int64
}

func (d *slack) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	s, err := d.Driver.Open(ctx, o)
	if err == nil {
		s.Session = &slackSession{Session: s.Session, d: d}
	}
	return s, err
}

type slackSession struct {
	driver.Session
	d     *slack
	beats atomic.Int32
}

// now reports whether this call is one of the bad ones.
func (s *slackSession) now() bool { return s.beats.Add(1)%2 == 1 || s.d.always }

func (s *slackSession) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	answer, err := s.Session.Renew(ctx, known)
	if s.now() {
		select {
		case <-time.After(s.d.late):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		for i := range answer {
			answer[i].Proof = answer[i].Proof.Add(-s.d.old)
		}
	}
	return answer, err
}

func (s *slackSession) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	tk, err := s.Session.Join(ctx, r)
	if tk.Proof = tk.Proof.Add(-time.Duration(s.d.grants.Load())); s.d.joins && s.now() {
		tk.Proof = tk.Proof.Add(-s.d.old)
	}
	return tk, err
}

func (s *slackSession) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	tk, err := s.Session.Await(ctx, t)
	tk.Proof = tk.Proof.Add(-time.Duration(s.d.grants.Load()))
	return tk, err
}

// A grant whose proof is nearly as old as the TTL, after an outage say, is no lease before a heartbeat has renewed it.
func TestALeaseIsNotHandedOutJustBeforeItsEnd(t *testing.T) {
	late := func(heartbeats time.Duration, body func(t *testing.T, s *slack, c, other *interlock.Client)) func(*testing.T) {
		return func(t *testing.T) {
			d := memlock.New()
			s := &slack{Driver: d, late: heartbeats, always: true}
			s.grants.Store(int64(85 * ttl / 100))
			c, other := errtest.Must(interlock.New(ctx, s))(t), errtest.Must(interlock.New(ctx, d))(t)
			defer c.Close()
			defer other.Close()
			body(t, s, c, other)
		}
	}
	granted := func(t *testing.T, r result) {
		t.Helper()
		ok(t, r.err)
		left := r.lease.Remaining()
		failIf(t, left < ttl/3, "it is handed out with %v left", left)
		time.Sleep(3 * ttl)
		ok(t, r.lease.Err())
		ok(t, r.lease.Release())
	}
	simulatedAs(t, "a join", late(0, func(t *testing.T, _ *slack, c, _ *interlock.Client) {
		granted(t, <-async(ctx, c.Mutex("m")))
	}))
	simulatedAs(t, "a wait", late(0, func(t *testing.T, _ *slack, c, other *interlock.Client) {
		holder := acquire(t, other.Mutex("m"))
		got := async(ctx, c.Mutex("m"))
		ok(t, holder.Release())
		granted(t, <-got)
	}))
	simulatedAs(t, "a wait that ends before a heartbeat is answered", late(ttl, func(t *testing.T, _ *slack, c, other *interlock.Client) {
		wantErr(t, errOf(c.Mutex("m").Acquire(lasting(t, ttl/100))), context.DeadlineExceeded)
		synctest.Wait()
		ok(t, errtest.Must(other.Mutex("m").TryAcquire(ctx))(t).Release())
	}))
	simulatedAs(t, "the end of the session", func(t *testing.T) { // a grant may outlast a session that is over at once
		a, _ := pair(t)
		hung := a.faults().Before("Renew", 0).Hang()
		time.Sleep(8 * ttl / 10)
		got := async(ctx, a.Mutex("m"))
		time.Sleep(ttl / 100)
		select {
		case <-got:
			t.Fatal("it is handed out though no heartbeat was answered for long")
		default:
		}
		a.faults().Clear()
		hung.Deliver()
		granted(t, <-got)
	})
	simulatedAs(t, "an end before a heartbeat is answered", late(ttl, func(t *testing.T, s *slack, c, _ *interlock.Client) {
		got := async(ctx, c.Mutex("m"))
		s.grants.Store(0)
		time.Sleep(ttl / 5)
		r := now(t, got, "the ticket has ended, and no other one was joined")
		ok(t, r.err)
		ok(t, r.lease.Release())
	}))
}

// A part of the backend that cannot be asked endangers its own leases alone.
func TestAnUnreachablePartDoubtsItsOwnLeases(t *testing.T) {
	simulated(t, func(t *testing.T) {
		c := client(t, wrapped{memlock.New(), func(s driver.Session) driver.Session { return partial{s} }})
		good, bad := acquire(t, c.Mutex("good")), acquire(t, c.Mutex("bad"))
		time.Sleep(ttl / 2)
		failIf(t, good.InDoubt() || !bad.InDoubt(), "in doubt: good %v, bad %v", good.InDoubt(), bad.InDoubt())
		time.Sleep(2 * ttl)
		ok(t, good.Err())
		wantErr(t, bad.Err(), interlock.ErrLost)
		ok(t, good.Release())
	})
}

// partial cannot ask about the queue "bad".
type partial struct{ driver.Session }

func (s partial) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	var asked []driver.Ticket
	for _, k := range known {
		if k.Queue != "bad" {
			asked = append(asked, k)
		}
	}
	return s.Session.Renew(ctx, asked)
}

// An acquire that is told that its session is over does not wait until the heartbeat is told.
func TestAnAcquireFindsOutThatItsSessionIsOver(t *testing.T) {
	simulated(t, alone(func(t *testing.T, a member) {
		a.faults().Before("Signals", 0).Hang()
		a.faults().Expire()
		time.Sleep(ttl) // a session whose signals hang
		a.faults().Expire()
		began := time.Now()
		lease := acquire(t, a.Mutex("m"))
		within(t, began, time.Second, "acquired after")
		ok(t, lease.Release())
	}))
}

// Who waits is not left behind with a session that is over, though the call does not return
// by itself.
func TestAWaitEndsWithItsSession(t *testing.T) {
	simulated(t, both(func(t *testing.T, a, b member) {
		holder := acquire(t, b.Mutex("m"))
		await := a.faults().Before("Await", 1).Hang()
		waits := async(ctx, a.Mutex("m"))
		<-await.Reached()
		a.faults().Expire()
		time.Sleep(time.Second)
		ok(t, holder.Release())
		now(t, waits, "it still waits in the old session").release(t)
	}))
}

// Promise: a lease never has less than 0.4 of its TTL left, from its grant on, also where
// the backend proves nothing younger than a third of the TTL; and where proofs are young
// there are three heartbeats for each TTL.
func TestHeartbeatsLeaveTime(t *testing.T) {
	for _, c := range []struct {
		name           string
		old            time.Duration
		beats, atLeast time.Duration
	}{
		{"old proofs", ttl / 3, 16, ttl * 4 / 10},
		{"young proofs", 0, 4, ttl * 55 / 100},
	} {
		simulatedAs(t, c.name, func(t *testing.T) {
			var r record
			cl := client(t, &slack{Driver: memlock.New(), old: c.old, always: true, joins: true}, r.observe())
			const periods = 30
			idle := ttl / 10
			for began := time.Now(); time.Since(began) < periods*ttl; idle += ttl / 30 {
				time.Sleep(idle) // so that the next one is granted at another time between heartbeats
				l := acquire(t, cl.Mutex("m"))
				for range 80 {
					fatalIf(t, l.Remaining() < c.atLeast, "%v are left of %v", l.Remaining(), ttl)
					time.Sleep(ttl / 100)
				}
				ok(t, l.Release())
			}
			beats := len(r.of(interlock.EventRenewed))
			failIf(t, beats > int((periods+2)*c.beats), "%d heartbeats in %d TTLs", beats, periods)
		})
	}
}

// Promise: a renewal counts however late its answer comes, while it proves that the lease is held: answers that each
// take half of a TTL lose nothing, and no lease is in doubt while they come.
func TestALateAnswerRenews(t *testing.T) {
	simulated(t, func(t *testing.T) {
		cl := client(t, &slack{Driver: memlock.New(), late: ttl / 2, always: true})
		l := acquire(t, cl.Mutex("m"))
		time.Sleep(ttl)
		for began := time.Now(); time.Since(began) < 10*ttl; time.Sleep(ttl / 100) {
			ok(t, l.Err())
			fatalIf(t, l.InDoubt(), "the lease is in doubt")
		}
		ok(t, l.Release())
	})
}
