package quorumlock_test

import (
	"testing"
	"testing/synctest"
	"time"

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
