package quorumlock_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a lock of a fixed time ends when a majority of members end it, and inspection and whoever
// adopts it go by that, also if a member has missed that the time was made shorter.
func TestAMemberThatMissedAnEarlierEndProlongsNothing(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		a, members := client(t, w...)
		r := request()
		r.Hold = 10 * time.Minute
		tk, err := a.Join(t.Context(), r)
		if err != nil || !tk.Held {
			t.Fatalf("Join: %+v, %v", tk, err)
		}
		synctest.Wait()
		members[2].Faults().Cut()
		errtest.None(t, a.Keep(t.Context(), tk, time.Minute))
		looker, _ := quorum(t, w...)
		q, err := looker.Follow(t.Context(), r.Queue, "")
		if err != nil || len(q.Members) != 1 || !q.Members[0].Held || q.Members[0].Left > time.Minute {
			t.Errorf("of a lock that two of three members end in a minute inspection shows %+v, %v", q, err)
		}
	})
}

// Promise: a lock that may still stand at a majority is not reported as taken away.
func TestWhoTakesALockAwayHearsThatItMayStand(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		holder, _ := client(t, w...)
		tk := hold(t, holder)
		synctest.Wait()
		taker, members := quorum(t, w...)
		for _, m := range members[:2] {
			m.Faults().Before("Ask", 1).Fail()
		}
		if err := taker.Ask(t.Context(), tk.Queue, tk.ID, driver.Force); !errors.Is(err, memlock.ErrFailed) {
			t.Errorf("Ask that one of three members has done: %v", err)
		}
		if q, err := taker.Follow(t.Context(), tk.Queue, ""); err != nil || len(q.Members) != 1 || !q.Members[0].Held {
			t.Errorf("of a lock that stands at two of three members inspection shows %+v, %v", q, err)
		}
		if err := taker.Ask(t.Context(), tk.Queue, tk.ID, driver.Force); err != nil {
			t.Errorf("Ask that all members have done: %v", err)
		}
		if q, err := taker.Follow(t.Context(), tk.Queue, ""); err != nil || len(q.Members) != 0 {
			t.Errorf("of a lock that was taken away inspection shows %+v, %v", q, err)
		}
	})
}

// Promise: inspection shows waiters in the order of their line. A new one has places at other members for a moment, and
// is not shown before those who wait already.
func TestInspectionShowsTheOrderOfTheLine(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		var want []string
		join := func(who int, members ...int) {
			id := fmt.Sprintf("%032d", who)
			for _, i := range members {
				d := w[i].Driver()
				t.Cleanup(func() { d.Close() })
				r := request()
				r.NoWait, r.Note = false, []byte(id+" ")
				errtest.Must(session(t, d).Join(t.Context(), r))(t)
			}
		}
		join(0, 0) // it has got through its line, and
		join(2, 1) // meets one that is new,
		join(0, 1) // so it waits here
		join(1, 0) // while this one waits for longer
		join(2, 0) // than the new one
		join(3, 2) // which is not the only one: this one is on its way to the line
		for who := range 4 {
			want = append(want, fmt.Sprintf("%032d", who))
		}
		looker, _ := quorum(t, w...)
		one := errtest.Must(looker.Follow(t.Context(), request().Queue, ""))(t)
		for q, err := range looker.Queues(t.Context(), "") {
			errtest.None(t, err)
			for _, q := range []driver.Queue{one, q} {
				var got []string
				for _, m := range q.Members {
					got = append(got, m.ID)
				}
				if !slices.Equal(got, want) {
					t.Errorf("the order of the waiters is %q", got)
				}
			}
		}
	})
}

// Promise: nobody is told that a lock of a fixed time is gone while a member is silent that may hold it.
func TestALockOfAFixedTimeIsNotGoneWhileAMemberIsSilent(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		a, members := client(t, w...)
		members[2].Faults().Cut() // so that the holder has the first two
		r := request()
		r.Hold = time.Hour
		tk, err := a.Join(t.Context(), r)
		if err != nil || !tk.Held {
			t.Fatalf("Join: %+v, %v", tk, err)
		}
		b, of := client(t, w...)
		of[1].Faults().Before("Follow", 0).Fail()
		if r, err := b.Renew(t.Context(), []driver.Ticket{tk}); err != nil || len(r) != 0 {
			t.Errorf("Renew: %+v, %v", r, err)
		}
		if err := b.Keep(t.Context(), tk, time.Hour); err == nil || errors.Is(err, driver.ErrGone) || driver.IsPermanent(err) {
			t.Errorf("Keep: %v", err)
		}
		of[1].Faults().Clear()
		if r, err := b.Renew(t.Context(), []driver.Ticket{tk}); err != nil || len(r) != 1 || r[0].State != driver.Kept {
			t.Errorf("Renew when the member answers: %+v, %v", r, err)
		}
	})
}
