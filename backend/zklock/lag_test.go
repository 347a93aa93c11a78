package zklock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a client whose Join had no answer, and that has come to a server which has not
// heard of it yet, leaves with its ticket, and makes no second one.
func TestJoinThatTheNextServerHasNotHeardOf(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t, 4, zktest.Config("syncLimit", "50"))
	leader, fs := e.Leader(), e.Followers()
	via, other := zktest.NewProxy(t, leader.Addr), zktest.NewProxy(t, fs[0].Addr)
	raw := connected(t, leader.Addr)
	for _, again := range []bool{false, true} {
		other.Refuse(true)
		d := opened(t, via.Addr+","+other.Addr)
		a := session(t, d, 20*time.Second)
		warm(t, a, "q")
		other.Refuse(false)
		for _, f := range fs[1:] { // the leader proposes, and nothing is decided
			e.Freeze(f)
		}
		proposed := via.Requests(zktest.OpCreate)
		r := aMutex("q")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := a.Join(ctx, r); ended <- err }()
		busy.Until(t, "the create is under way", func() bool { return via.Requests(zktest.OpCreate) > proposed })
		via.Refuse(true)
		via.Cut()
		cancel()
		<-ended
		thawed := make(chan struct{})
		go func() {
			defer close(thawed)
			time.Sleep(2 * time.Second) // for the client to come to the other server, and ask there
			for _, f := range fs[1:] {
				e.Thaw(f)
			}
		}()
		if again {
			r.Retry = true
			busy.Until(t, "the Join is answered", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := a.Join(ctx, r)
				return err == nil
			})
			if stand := nodes(t, raw, "/a/q"); len(stand) != 1 {
				t.Errorf("not one ticket: %q", stand)
			}
		}
		_ = quit(t, a, driver.Ticket{ID: r.ID, Queue: "q"})
		<-thawed
		errtest.Must(raw.Sync("/"))(t)
		beat(t, a)
		empties(t, raw)
		via.Refuse(false)
	}
}
