package quorumlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// deafen keeps the session of a member from hearing anything without having asked.
func deafen(d *memlock.Driver) *memlock.Hung {
	h := d.Faults().Before("Signals", 1).Stick()
	d.Faults().Cut() // ends the call that is under way
	d.Faults().Heal()
	<-h.Reached()
	return h
}

// Promise: a place that is given back does not stay for its fixed time, also if the session there ends first.
func TestAPlaceOfAFixedTimeIsGivenBackAfterItsSession(t *testing.T) {
	for _, lost := range []bool{false, true} { // the first Leave there
		three(t, func(t *testing.T, w []*memlock.World) {
			a, members := client(t, w...)
			members[2].Faults().Cut() // so that the holder has the first two
			hold(t, a)
			b, of := client(t, w...)
			last := of[2].Faults()
			deaf := deafen(of[2]) // so that the end is not heard of before
			leave, again := last.Before("Leave", 1).Hang(), last.Before("Leave", 2).Hang()
			r := request()
			r.Hold = time.Hour
			answer := make(chan error, 1)
			go func() {
				_, err := b.Join(t.Context(), r)
				answer <- err
			}()
			<-leave.Reached()
			if lost {
				leave.Lose()
				leave = again
				<-leave.Reached()
			} else {
				last.Clear()
			}
			last.Expire()
			leave.Deliver()
			errtest.MustBe(t, <-answer, driver.ErrBusy, "Join")
			time.Sleep(2 * ttl)
			deaf.Deliver()
			if q := look(t, w[2]); len(q.Members) != 0 {
				t.Errorf("the member still has %+v", q.Members)
			}
		})
	}
}

// Promise: a place that has missed a Keep does not count for the new time, so that nobody takes a lock for held
// that another holds.
func TestAPlaceThatMissedKeepCountsForItsOwnTime(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		a, members := client(t, w...)
		tk := hold(t, a)
		synctest.Wait()
		members[2].Faults().Cut()
		errtest.None(t, a.Keep(t.Context(), tk, time.Hour))
		time.Sleep(2 * ttl) // the place at the last one has ended
		is(t, a, tk, driver.Kept, "while two members keep it")
		first := w[0].Driver()
		defer first.Close()
		at := errtest.Must(first.Open(t.Context(), driver.SessionOptions{TTL: ttl}))(t)
		q, err := first.Follow(t.Context(), tk.Queue, "")
		if err != nil || len(q.Members) != 1 {
			t.Fatalf("Follow: %+v, %v", q, err)
		}
		if err := at.Leave(t.Context(), driver.Ticket{ID: q.Members[0].ID, Queue: tk.Queue}, true); err != nil {
			t.Fatal(err) // now the first one has lost it, too
		}
		is(t, a, tk, driver.Gone, "of a lock that another may hold")
	})
}
