package redislock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: when the server loses a key of a queue, others have the lock soon after.
func TestALostKeyBlocksNobodyForEver(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"q", "w", "e"} {
		for _, leave := range []bool{true, false} {
			t.Run(fmt.Sprint(lost, leave), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				const ttl = 500 * time.Millisecond
				_, a := session(t, s.URL(), ttl)
				_, b := session(t, s.URL(), ttl)
				held := errtest.Must(a.Join(t.Context(), exclusive("q")))(t)
				wait := errtest.Must(b.Join(t.Context(), exclusive("q")))(t)
				do(t, s, "DEL", "interlock:{q}:"+lost)
				if leave {
					t.Logf("Leave of the holder: %v", a.Leave(t.Context(), held, true))
					t.Logf("Leave of the waiting one: %v", b.Leave(t.Context(), wait, true))
				}
				_, c := session(t, s.URL(), ttl)
				q := exclusive("q")
				var last error
				var kept int
				for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
					var tk driver.Ticket
					if errors.Is(last, driver.ErrGone) { // nobody renewed it for a TTL
						q = exclusive("q")
					}
					tk, last = c.Join(t.Context(), q)
					q.Retry = true
					if last == nil {
						_, last = c.Renew(t.Context(), []driver.Ticket{tk})
					}
					if last != nil || !tk.Held {
						kept = 0
					} else if kept++; kept > 50 { // longer than a TTL
						return
					}
				}
				t.Errorf("a minute later nobody can have the lock: %v", last)
			})
		}
	}
}

// Promise: when the server loses a queue, whoever held is still protected by the lock's key.
func TestALostQueueIsStillHeld(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL(), 5*time.Second)
	_, b := session(t, s.URL(), 5*time.Second)
	held := errtest.Must(a.Join(t.Context(), exclusive("q")))(t)
	wait := errtest.Must(b.Join(t.Context(), exclusive("q")))(t)
	_ = b.Leave(t.Context(), wait, true)
	do(t, s, "DEL", "interlock:{q}:q")
	t.Log("LOCK:", do(t, s, "GET", "q"))
	other, err := b.Join(t.Context(), exclusive("q"))
	if err == nil && other.Held && driver.Now() < held.Proof.Add(5*time.Second) {
		t.Errorf("two hold, although the lock's own key still says that it is taken")
	}
}

// Promise: if the server has lost a part of a queue and the last token, whoever comes next
// is told that the last holder may not have been done.
func TestWhoeverHeldALostQueueMayNotHaveBeenDone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	_, a := session(t, s.URL(), time.Minute)
	_, b := session(t, s.URL(), time.Minute)
	x := &demand{t: t}
	x.join(a, exclusive("q"))
	x.join(b, exclusive("q"))
	do(t, s, "DEL", "interlock:{q}:e", "interlock:{q}:t")
	errtest.Must(a.Renew(t.Context(), nil))(t) // notices it
	s.StepClock(2 * time.Minute)
	r := exclusive("q")
	r.ReportDeath = true
	if tk := x.join(b, r); !tk.Held || !tk.Inherited {
		t.Errorf("the next ticket is %+v", tk)
	}
}
