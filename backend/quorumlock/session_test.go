package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: whose session a member has ended joins there again while its ticket is held, whichever
// call the member has told it in, so that another member may fail then.
func TestALockIsTakenAgainAtAMemberThatHasEndedTheSession(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		s, members := client(t, w...)
		tk := hold(t, s)
		synctest.Wait()
		members[0].Faults().Expire()
		synctest.Wait() // the client hears of it and opens another session there
		renew := func(when string) {
			t.Helper()
			time.Sleep(s.TTL / 3)
			is(t, s, tk, driver.Kept, when)
			synctest.Wait()
		}
		for range 3 {
			renew("after a member has ended the session")
		}
		members[1].Faults().Cut()
		for range 9 {
			renew("while another member is cut off")
		}
	})
}

// Promise: a lock that is held joins again as soon as a member counts, not only with the next heartbeat, so that all
// members may fail one after the other.
func TestALockJoinsAgainAsSoonAsAMemberCounts(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		s, members := client(t, w...)
		tk := hold(t, s)
		synctest.Wait()
		for range 2 {
			for _, m := range members {
				m.Faults().Expire()
				synctest.Wait() // the client hears of it and opens another session there
			}
		}
		other, _ := client(t, w...)
		if tk, err := other.Join(t.Context(), request()); !errors.Is(err, driver.ErrBusy) {
			t.Errorf("Join of another: %+v, %v", tk, err)
		}
		is(t, s, tk, driver.Kept, "after all members have ended the session")
	})
}

// Promise: so it is with a member that has lost its data, also if a join there has failed before it did.
func TestALockJoinsAgainAsSoonAsAnEmptyMemberCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, empty := fresh(t, 3), memlock.NewWorld()
		without := empty.Driver()
		defer without.Close()
		lossy := &forgetful{Driver: w[0].Driver(), empty: without}
		s := session(t, over(t, lossy, w[1].Driver(), w[2].Driver()))
		tk := hold(t, s)
		synctest.Wait()
		lossy.lost.Store(true)
		without.Faults().Before("Join", 1).Fail()
		for range 4 {
			errtest.Must(s.Renew(t.Context(), []driver.Ticket{tk}))(t)
			time.Sleep(ttl * 33 / 100)
		}
		if q := look(t, empty); len(q.Members) == 0 {
			t.Error("the member counts, and the lock has not joined there")
		}
	})
}

// Promise: a lock whose majority has ended stays lost, also if it was joining at another member then: another has held
// it meanwhile.
func TestAJoinThatComesLateBringsNoLockBack(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		a, members := client(t, w...)
		last := members[2].Faults()
		last.Before("Join", 0).Fail() // so that the holder has the first two
		tk := hold(t, a)
		synctest.Wait()
		members[0].Faults().Cut()
		renew := func() []driver.Renewed {
			t.Helper()
			r := errtest.Must(a.Renew(t.Context(), []driver.Ticket{tk}))(t)
			return r
		}
		for range 2 {
			time.Sleep(ttl * 33 / 100)
			renew()
		}
		time.Sleep(ttl * 33 / 100)
		last.Clear()
		late := last.Before("Join", 1).Hang()
		renew()
		<-late.Reached()
		time.Sleep(ttl / 50)                             // the place at the first one has ended
		for _, w := range []*memlock.World{w[0], w[2]} { // another has a majority
			d := w.Driver()
			defer d.Close()
			b := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: ttl}))(t)
			errtest.None(t, b.Leave(t.Context(), hold(t, b), true))
		}
		late.Deliver()
		synctest.Wait()
		is(t, a, tk, driver.Gone, "of a lock that another has held meanwhile")
		synctest.Wait()
		if q := look(t, w[2]); len(q.Members) != 0 {
			t.Errorf("the last member still has %+v", q.Members)
		}
	})
}

// look reads the queue of a member.
func look(t *testing.T, w *memlock.World) driver.Queue {
	t.Helper()
	d := w.Driver()
	defer d.Close()
	q := errtest.Must(d.Follow(t.Context(), request().Queue, ""))(t)
	return q
}

// Promise: a lock that is held and has been evicted joins nowhere any more.
func TestAnEvictedLockDoesNotJoinAgain(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		s, members := client(t, w...)
		tk := hold(t, s)
		synctest.Wait()
		d, _ := quorum(t, w...)
		errtest.None(t, d.Ask(t.Context(), tk.Queue, tk.ID, driver.Evict))
		synctest.Wait()
		members[0].Faults().Expire()
		synctest.Wait()
		if q := look(t, w[0]); len(q.Members) != 0 {
			t.Errorf("it has joined again: %+v", q.Members)
		}
	})
}

// Promise: where a lock that is held could not join, the next heartbeat tries again, and nothing sooner: a member that
// answers but grants nothing is not asked without end.
func TestAMemberThatGrantsNothingIsAskedWithTheHeartbeat(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		bad := &refusing{Driver: w[2].Driver(), err: memlock.ErrFailed, limit: 100}
		s := session(t, over(t, w[0].Driver(), w[1].Driver(), bad))
		tk := hold(t, s)
		time.Sleep(time.Second)
		before := bad.joins.Load()
		for range 3 {
			errtest.Must(s.Renew(t.Context(), []driver.Ticket{tk}))(t)
			time.Sleep(time.Second)
		}
		if n := bad.joins.Load() - before; n < 3 || n > 6 {
			t.Errorf("%d tries to join in 3 heartbeats", n)
		}
	})
}

// Promise: a member that answers but grants nothing, such as one whose disk is full or whose user lacks a right, keeps
// nobody out, also if it is the first in order. If a majority refuses for good, so does the quorum.
func TestAMemberThatGrantsNothingKeepsNobodyOut(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		bad  int
		held bool
	}{
		"one fails":            {memlock.ErrFailed, 1, true},
		"one refuses for good": {driver.Permanent(errors.New("no right")), 1, true},
		"two refuse for good":  {driver.Permanent(errors.New("no right")), 2, false},
		"all refuse for good":  {driver.Permanent(errors.New("no right")), 3, false},
	} {
		for _, nowait := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/nowait=%v", name, nowait), func(t *testing.T) {
				three(t, func(t *testing.T, w []*memlock.World) {
					var all []driver.Driver
					for i, world := range w {
						all = append(all, world.Driver())
						if i < c.bad {
							all[i] = &refusing{Driver: all[i], err: c.err, limit: 100}
						}
					}
					s := session(t, over(t, all...))
					began := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					r := request()
					r.NoWait = nowait
					tk, err := s.Join(ctx, r)
					if tk.Held != c.held || !c.held && !driver.IsPermanent(err) {
						t.Errorf("Join: %+v, %v", tk, err)
					}
					if waited := time.Since(began); waited > time.Second {
						t.Errorf("it took %v", waited)
					}
				})
			})
		}
	}
}

// refusing is a member that answers, but whose every Join fails. After so many of them it answers no more.
type refusing struct {
	driver.Driver
	err   error
	limit int64
	joins atomic.Int64
}

type refusingSession struct {
	driver.Session
	r *refusing
}

func (r *refusing) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	at, err := r.Driver.Open(ctx, o)
	if err == nil {
		at.Session = &refusingSession{at.Session, r}
	}
	return at, err
}

func (s *refusingSession) Join(ctx context.Context, _ driver.Request) (driver.Ticket, error) {
	if s.r.joins.Add(1) > s.r.limit {
		<-ctx.Done()
	}
	return driver.Ticket{}, s.r.err
}

// Promise: a lock that is held joins again at a member that counts, also if another has become silent since.
func TestALockJoinsAgainWhileAnotherMemberIsSilent(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		s, members := client(t, w...)
		members[2].Faults().Before("Join", 0).Fail() // so that the holder has the first two
		tk := hold(t, s)
		synctest.Wait()
		members[2].Faults().Clear()
		time.Sleep(s.TTL / 4) // the last one counts again
		members[1].Faults().Cut()
		for range 5 {
			errtest.Must(s.Renew(t.Context(), []driver.Ticket{tk}))(t)
			synctest.Wait()
			time.Sleep(s.TTL / 3)
		}
		is(t, s, tk, driver.Kept, "with two of three members")
	})
}

// Promise: a ticket that is evicted while it waits does not join again, also if Renew is the first to say so.
func TestAnEvictedWaiterDoesNotJoinAgain(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		a, _ := client(t, w...)
		hold(t, a)
		b, members := client(t, w...)
		line := members[0].Faults()
		deaf := []*memlock.Hung{line.After("Await", 1).Stick(), deafen(members[0])}
		r := request()
		r.NoWait = false
		tk, err := b.Join(t.Context(), r)
		if err != nil || tk.Held {
			t.Fatalf("Join: %+v, %v", tk, err)
		}
		q := look(t, w[0])
		if len(q.Members) != 2 {
			t.Fatalf("the line has %+v", q.Members)
		}
		first := w[0].Driver()
		defer first.Close()
		errtest.None(t, first.Ask(t.Context(), r.Queue, q.Members[1].ID, driver.Evict))
		errtest.Must(b.Renew(t.Context(), []driver.Ticket{tk}))(t)
		synctest.Wait()
		if q := look(t, w[0]); len(q.Members) != 1 {
			t.Errorf("it waits again: %+v", q.Members)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Await(ctx, tk); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Await: %v", err)
		}
		for _, h := range deaf {
			h.Deliver()
		}
	})
}

// pausing is a member that grants nothing before a time.
type pausing struct {
	driver.Driver
	until driver.Instant
}

func (p pausing) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	at, err := p.Driver.Open(ctx, o)
	if err == nil {
		at.Paused = p.until
	}
	return at, err
}

// Promise: a quorum grants nothing, and says so, before a majority of its members grants again.
func TestAQuorumIsPausedUntilAMajorityGrants(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		for _, c := range []struct {
			ends  [3]driver.Instant
			until driver.Instant
		}{
			{[3]driver.Instant{0, 7, 0}, 0},
			{[3]driver.Instant{9, 0, 7}, 7},
			{[3]driver.Instant{9, 8, 7}, 8},
		} {
			var members []driver.Driver
			for i, of := range w {
				members = append(members, pausing{of.Driver(), c.ends[i]})
			}
			if got := session(t, over(t, members...)).Paused; got != c.until {
				t.Errorf("members pause until %v: until %v", c.ends, got)
			}
		}
	})
}

// Promise: who has a majority only with a place that was ended without a Leave hears all members before it holds, the
// slow ones, too: the holder may stand there.
func TestAGrantOnAPlaceThatHasEndedWaitsForAllMembers(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		a, members := client(t, w...)
		members[0].Faults().Before("Join", 0).Fail() // so that the holder has the last two
		hold(t, a)
		synctest.Wait()
		members[1].Faults().Cut()
		members[1].Faults().Expire() // as a clock does that is set forward
		other, theirs := client(t, w...)
		late := theirs[2].Faults().Before("Join", 1).Hang()
		time.AfterFunc(ttl/20, late.Deliver)
		if tk, err := other.Join(t.Context(), request()); !errors.Is(err, driver.ErrBusy) {
			t.Errorf("Join beside a holder: %+v, %v", tk, err)
		}
	})
}

// Promise: a reader that only tries does not pass a writer that waits.
func TestATryDoesNotPassAWriterThatWaits(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		ticket := func(units int64, try bool) driver.Request {
			r := request()
			r.Kind, r.Capacity, r.Units, r.NoWait = driver.RWMutex, driver.RWCapacity, units, try
			return r
		}
		s, _ := client(t, w...)
		if tk, err := s.Join(t.Context(), ticket(1, false)); err != nil || !tk.Held {
			t.Fatalf("the reader: %+v, %v", tk, err)
		}
		if tk, err := s.Join(t.Context(), ticket(driver.RWCapacity, false)); err != nil || tk.Held {
			t.Fatalf("the writer: %+v, %v", tk, err)
		}
		if tk, err := s.Join(t.Context(), ticket(1, true)); !errors.Is(err, driver.ErrBusy) {
			t.Errorf("another reader: %+v, %v", tk, err)
		}
	})
}

// Promise: readers after work that is half done hold together, also if a member keeps one of them out behind a waiter.
func TestAReaderIsNotInTheWayOfAnother(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		reader := func() driver.Request {
			r := request()
			r.Kind, r.Capacity, r.ReportDeath, r.NoWait = driver.RWMutex, driver.RWCapacity, true, false
			return r
		}
		writer := reader()
		writer.Units = writer.Capacity
		s, _ := client(t, w...)
		half := errtest.Must(s.Join(t.Context(), writer))(t)
		errtest.None(t, s.Leave(t.Context(), half, false))
		synctest.Wait()
		first, err := s.Join(t.Context(), reader())
		if err != nil || !first.Inherited {
			t.Fatalf("the first reader: %+v, %v", first, err)
		}
		writer.ID = reader().ID
		if tk, err := session(t, w[2].Driver()).Join(t.Context(), writer); err != nil || tk.Held {
			t.Fatalf("a writer that waits at one member: %+v, %v", tk, err)
		}
		tk, err := s.Join(t.Context(), reader())
		if err == nil && !tk.Held {
			ctx, cancel := context.WithTimeout(t.Context(), ttl/2)
			defer cancel()
			tk, err = s.Await(ctx, tk)
		}
		if err != nil || !tk.Held {
			t.Errorf("the second reader: %+v, %v", tk, err)
		}
	})
}
