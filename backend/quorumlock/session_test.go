package quorumlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

// Promise: whose session a member has ended joins there again while its ticket is held, whichever
// call the member has told it in, so that another member may fail then.
func TestALockIsTakenAgainAtAMemberThatHasEndedTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fresh(t, 3)
		s, members := client(t, w...)
		tk := hold(t, s)
		synctest.Wait()
		members[0].Faults().Expire()
		synctest.Wait() // the client hears of it and opens another session there
		renew := func(when string) {
			t.Helper()
			time.Sleep(s.TTL / 3)
			r, err := s.Renew(t.Context(), []driver.Ticket{tk})
			if err != nil || len(r) != 1 || r[0].State != driver.Kept {
				t.Fatalf("Renew %s: %+v, %v", when, r, err)
			}
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

// Promise: a lock that is held joins again at a member that counts, also if another has become silent since.
func TestALockJoinsAgainWhileAnotherMemberIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fresh(t, 3)
		s, members := client(t, w...)
		members[2].Faults().Cut() // so that the holder has the first two
		tk := hold(t, s)
		members[2].Faults().Heal()
		time.Sleep(s.TTL / 4) // the last one counts again
		members[1].Faults().Cut()
		var r []driver.Renewed
		for range 6 {
			var err error
			if r, err = s.Renew(t.Context(), []driver.Ticket{tk}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			time.Sleep(s.TTL / 3)
		}
		if len(r) != 1 || r[0].State != driver.Kept {
			t.Errorf("Renew with two of three members: %+v", r)
		}
	})
}

// Promise: a ticket that is evicted while it waits does not join again, also if Renew is the first to say so.
func TestAnEvictedWaiterDoesNotJoinAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fresh(t, 3)
		sortByLife(t, w)
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
		look := w[0].Driver()
		defer look.Close()
		q, err := look.Follow(t.Context(), r.Queue, "")
		if err != nil || len(q.Members) != 2 {
			t.Fatalf("the line has %+v, %v", q.Members, err)
		}
		if err := look.Ask(t.Context(), r.Queue, q.Members[1].ID, driver.Evict); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Renew(t.Context(), []driver.Ticket{tk}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if q, err = look.Follow(t.Context(), r.Queue, ""); err != nil || len(q.Members) != 1 {
			t.Errorf("it waits again: %+v, %v", q.Members, err)
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
