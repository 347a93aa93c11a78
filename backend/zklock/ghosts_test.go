package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a ticket whose node got another name by a call without an answer leaves
// all the same.
func TestATicketWithAnotherNameThanKnownLeaves(t *testing.T) {
	t.Parallel()
	s := lent(t)
	for what, change := range map[string]func(ctx context.Context, a *driver.Opened, k driver.Ticket) error{
		"shrunk": func(ctx context.Context, a *driver.Opened, k driver.Ticket) error { return a.Shrink(ctx, k, 1) },
		"kept":   func(ctx context.Context, a *driver.Opened, k driver.Ticket) error { return a.Keep(ctx, k, time.Hour) },
		"held for an hour": func(ctx context.Context, a *driver.Opened, k driver.Ticket) error {
			r := writer("q", k.ID)
			r.Hold = time.Hour
			_, err := a.Join(ctx, r)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			via := zktest.NewProxy(t, s.Addr)
			a := session(t, opened(t, via.Addr), 10*time.Second)
			warm(t, a, "q")
			k := driver.Ticket{ID: someID(), Queue: "q"}
			if what != "held for an hour" {
				holds(t, a, writer("q", k.ID))
			}
			via.LoseReplies(1, zktest.With(zktest.OpMulti))
			if err := change(limited(t), a, k); err == nil {
				t.Fatal("the answer was not lost")
			}
			_ = quit(t, a, k)
			empties(t, connected(t, s.Addr))
		})
	}
}

// writer asks for a ticket that can become a reader's.
func writer(queue, id string) driver.Request {
	return driver.Request{ID: id, Queue: queue, Kind: driver.RWMutex, Units: driver.RWCapacity, Capacity: driver.RWCapacity}
}

// Promise: a Join that is refused because of tickets of another kind is told so, also if
// the answer to any step of it was lost and the call repeated.
func TestARefusalWithoutAnAnswerIsStillOne(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a := session(t, d, 20*time.Second)
	p := zktest.NewProxy(t, s.Addr)
	b := session(t, opened(t, p.Addr), 20*time.Second)
	beat(t, a, holds(t, a, aMutex("q")))
	for _, op := range []zktest.Op{zktest.OpCreate, zktest.OpGetChildren2, zktest.OpDelete, zktest.OpMulti} {
		r := aMutex("q")
		r.Kind, r.Capacity = driver.Semaphore, 5
		p.LoseReplies(1, zktest.With(op))
		var err error
		busy.Until(t, "the Join is answered", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err = b.Join(ctx, r)
			r.Retry = true
			return err == nil || driver.IsPermanent(err)
		})
		if !errors.Is(err, driver.ErrMismatch) {
			t.Errorf("the answer to a %v was lost: %v", op, err)
		}
		p.LoseReplies(0, nil)
	}
}

// Promise: what Close of a driver or of a session leaves on the program's own connection
// is nothing, even of a Join without an answer.
func TestOwnConnectionIsLeftClean(t *testing.T) {
	t.Parallel()
	s := lent(t)
	for what, end := range map[string]func(d driver.Driver, a *driver.Opened) error{
		"driver closed":  func(d driver.Driver, _ *driver.Opened) error { return d.Close() },
		"session closed": func(_ driver.Driver, a *driver.Opened) error { return a.Close(context.Background()) },
	} {
		for _, lost := range []bool{false, true} {
			name := what
			if lost {
				name += ", an answer lost"
			}
			t.Run(name, func(t *testing.T) {
				via := zktest.NewProxy(t, s.Addr)
				d, _ := given(t, 10*time.Second, via.Addr)
				a := session(t, d, 10*time.Second)
				warm(t, a, "q")
				if lost {
					via.LoseReplies(1, zktest.With(zktest.OpCreate))
				}
				if _, err := a.Join(limited(t), aMutex("q")); (err != nil) != lost {
					t.Fatal(err)
				}
				busy.Until(t, "it closes", func() bool { return end(d, a) == nil })
				empties(t, connected(t, s.Addr))
			})
		}
	}
}

// Promise: what has a fixed end stands after Close, also on the program's own connection.
func TestOwnConnectionIsLeftWithWhatHasAFixedEnd(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	for what, end := range map[string]func(d driver.Driver, a *driver.Opened) error{
		"driver closed":  func(d driver.Driver, _ *driver.Opened) error { return d.Close() },
		"session closed": func(_ driver.Driver, a *driver.Opened) error { return a.Close(context.Background()) },
	} {
		t.Run(what, func(t *testing.T) {
			d, _ := given(t, 10*time.Second, s.Addr)
			a := session(t, d, 10*time.Second)
			held, kept, plain := aMutex(someID()), aMutex(someID()), aMutex(someID())
			held.Hold = time.Hour
			holds(t, a, held)
			noError(t, a.Keep(limited(t), holds(t, a, kept), time.Hour))
			holds(t, a, plain)
			busy.Until(t, "it closes", func() bool { return end(d, a) == nil })
			const post = "/a/_interlock/post"
			busy.Until(t, "all else has left", func() bool { return len(nodes(t, raw, post)) == 0 && len(nodes(t, raw, "/a/"+plain.Queue)) == 0 })
			for what, q := range map[string]string{"held for an hour": held.Queue, "kept for an hour": kept.Queue} {
				if len(nodes(t, raw, "/a/"+q)) != 1 {
					t.Errorf("what was %s does not stand", what)
				}
			}
		})
	}
}

// Promise: a ticket that is left while its Join makes the node of its queue does not stand.
func TestATicketThatIsLeftWhileItsQueueIsMade(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Config("maxSessionTimeout", "1200000"))
	via := zktest.NewProxy(t, s.Addr)
	raw := connected(t, s.Addr)
	a := session(t, opened(t, via.Addr), 10*time.Minute)
	for i := range 5 {
		r := aMutex(fmt.Sprintf("q%d/is/to/be/made/in/many/exchanges", i))
		hold := via.HoldReplies(zktest.With(zktest.OpCreateContainer))
		joined, left := make(chan error, 1), make(chan error, 1)
		go func() { _, err := a.Join(limited(t), r); joined <- err }()
		<-hold.Held()
		asked := via.Requests(zktest.OpMulti)
		go func() { left <- a.Leave(limited(t), driver.Ticket{ID: r.ID, Queue: r.Queue}, true) }()
		busy.Until(t, "Leave looks for the ticket", func() bool { return via.Requests(zktest.OpMulti) > asked })
		hold.Release()
		if err := <-left; err != nil && !errors.Is(err, driver.ErrGone) {
			t.Errorf("Leave: %v", err)
		}
		if err := <-joined; err != nil && !errors.Is(err, driver.ErrGone) {
			t.Errorf("Join: %v", err)
		}
		busy.Until(t, "it does not stand", func() bool { return len(nodes(t, raw, "/a/"+r.Queue)) == 0 })
	}
}

// Promise: a Join that is under way when the driver is closed leaves nothing on the program's
// own connection.
func TestOwnConnectionIsLeftCleanOfAJoinUnderWay(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d, _ := given(t, 3*time.Second, via.Addr)
	a := session(t, d, 3*time.Second)
	warm(t, a, "q")
	hold := via.HoldReplies(zktest.With(zktest.OpCreate))
	ended := make(chan error)
	go func() { _, err := a.Join(context.Background(), aMutex("q")); ended <- err }()
	select {
	case <-hold.Held():
	case err := <-ended:
		t.Fatal("it was not under way: ", err)
	}
	noError(t, d.Close())
	if err := <-ended; err == nil {
		t.Error("it was served after Close")
	}
	hold.Release()
	empties(t, connected(t, s.Addr))
}

// Promise: a Join that waits for a connection makes no ticket in the next session of the program's client.
func TestJoinsOfASessionThatIsOverLeaveNothing(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	for _, lose := range []int{0, 1000} {
		for range 3 {
			if made := inTheNextSession(t, s.Addr, raw, lose); made > 0 {
				t.Errorf("%d tickets were made in the next session (answers to be lost: %d)", made, lose)
			}
		}
	}
}

// inTheNextSession joins again and again until the program's client has another session,
// and returns how many tickets were made then, or how many answers to that were lost.
func inTheNextSession(t *testing.T, addr string, raw *zk.Conn, lose int) (made int) {
	var vias []*zktest.Proxy
	var addrs []string
	for range 4 {
		vias = append(vias, zktest.NewProxy(t, addr))
		addrs = append(addrs, vias[len(vias)-1].Addr)
	}
	d, conn := given(t, time.Second, addrs...)
	defer conn.Close()
	defer d.Close()
	a := session(t, d, time.Second)
	warm(t, a, "q")
	was := conn.SessionID()
	const post = "/a/_interlock/post"
	busy.Until(t, "there is one session", func() bool { return len(nodes(t, raw, post)) == 1 })
	for _, via := range vias {
		via.Hang()
	}
	joins, ended := 0, make(chan error)
	more := func() { // so that some wait in the client at any time
		joins++
		go func() {
			_, err := a.Join(context.Background(), aMutex("q"))
			ended <- err
		}()
	}
	busy.Until(t, "the server ends the session", func() bool {
		more()
		return len(nodes(t, raw, post)) == 0
	})
	var answered atomic.Int32
	for _, via := range vias {
		via.Observe(func(f zktest.Frame) {
			if f.Reply && f.Op == zktest.OpCreate && f.Err == 0 && strings.HasPrefix(f.Path, "/a/q/") {
				answered.Add(1)
			}
		})
		via.LoseReplies(lose, zktest.With(zktest.OpCreate))
		via.Resume()
	}
	busy.Until(t, "the client has another session", func() bool {
		more()
		return conn.SessionID() != was && conn.SessionID() != 0
	})
	for range joins {
		if err := <-ended; err == nil {
			t.Error("a Join of a session that is over was served")
		}
	}
	busy.Until(t, "the client has sent all that waited", func() bool { _, _, err := conn.Get("/"); return err == nil })
	if lose == 0 {
		made = int(answered.Load())
	}
	for _, via := range vias {
		via.LoseReplies(0, nil)
		made += via.Lost()
	}
	empties(t, raw)
	return made
}
