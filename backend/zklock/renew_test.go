package zklock_test

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: an answer of Renew proves no later time than a quarter of the TTL before it came:
// the leader may not have heard of the session since.
func TestARenewalProvesNothingOfItself(t *testing.T) {
	t.Parallel()
	s := lent(t)
	a := session(t, opened(t, s.Addr), 20*time.Second)
	k := holds(t, a, aMutex("q"))
	beat(t, a, k)
	time.Sleep(a.TTL/4 + 10*time.Millisecond) // that it was opened is a proof, too
	answers := errtest.Must(a.Renew(limited(t), []driver.Ticket{k}))(t)
	if late := driver.Now().Add(-a.TTL / 4); len(answers) != 1 || answers[0].Proof > late {
		t.Errorf("%+v: %v too late", answers, answers[0].Proof.Sub(late))
	}
}
