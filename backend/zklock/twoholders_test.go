package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a waiter that is granted while somebody evicts it keeps what it was
// granted until its TTL is over: nobody holds beside it.
func TestEvictDoesNotTakeWhatWasGrantedMeanwhile(t *testing.T) {
	a := alone(t)
	b, op := a.next(), a.next()
	h, w := a.holds(aMutex("q")), b.waits(aMutex("q"))
	end := op.stopped(zktest.With(zktest.OpDelete, zktest.OpMulti), func(ctx context.Context) error {
		return op.d.Ask(ctx, "q", w.ID, driver.Evict)
	})
	a.leaves(h)
	b.granted(b.awaits(w))
	noError(t, end())
	if left := a.nodes("q"); len(left) != 1 {
		t.Fatalf("it was told that it holds, and stands no more: %q", left)
	}
}

// Promise: a holder whose fixed end is moved while another looks for those whose end has
// passed goes on to hold alone.
func TestKeepWhileAnotherLooksForWhatHasEnded(t *testing.T) {
	a := alone(t)
	b := a.next()
	for span := 500 * time.Millisecond; ; span *= 2 {
		r := aMutex("q")
		r.Hold = span
		h := a.holds(r)
		hold := b.via.HoldRequests(zktest.With(zktest.OpSetData)) // it reads the clock
		joined := b.joins(aMutex("q"))
		select {
		case <-hold.Held():
		case got := <-joined: // the span was over before it looked
			hold.Release()
			noError(t, errors.Join(got.err, quit(t, b.Opened, got.Ticket)))
			continue
		}
		err := a.Keep(limited(t), h, 20*time.Second)
		time.Sleep(span + span/4) // until the first end has passed
		hold.Release()
		got := <-joined
		if errors.Is(err, driver.ErrGone) { // too late for this span
			_ = quit(t, b.Opened, got.Ticket)
			continue
		}
		if noError(t, errors.Join(err, got.err)); got.Held {
			t.Fatalf("two hold: %q", a.nodes("q"))
		}
		return
	}
}

// Promise: a ticket whose fixed end another session has moved stands until then, whether or
// not its own session has heard of that when the first end passes.
func TestAnEndThatAnotherHasMovedStands(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	b := session(t, opened(t, s.Addr), 20*time.Second)
	for _, heard := range []bool{true, false} {
		t.Run(fmt.Sprintf("heard of: %v", heard), func(t *testing.T) {
			via := zktest.NewProxy(t, s.Addr)
			a := session(t, opened(t, via.Addr), 20*time.Second)
			var seen atomic.Int32 // the ticket with a fixed end was, by its session, which watches it then
			via.Observe(func(f zktest.Frame) {
				if f.Reply && f.Op == zktest.OpGetData && f.Err == 0 && strings.Contains(f.Path, "-until") {
					seen.Add(1)
				}
			})
			q := someID()
			for span := time.Second; ; span *= 2 {
				r := aMutex(q)
				r.Hold = span
				before := seen.Load()
				h := holds(t, a, r)
				granted := time.Now()
				busy.Until(t, "its session watches the ticket", func() bool { return seen.Load() > before })
				before = seen.Load()
				hold := via.HoldReplies(func(f zktest.Frame) bool { return !heard && f.Op == zktest.OpEvent })
				asked := via.Requests(zktest.OpSetData)
				err := b.Keep(limited(t), h, time.Hour)
				if errors.Is(err, driver.ErrGone) { // too late for this span
					hold.Release()
					continue
				}
				noError(t, err)
				if heard {
					busy.Until(t, "its session has heard of the other end", func() bool { return seen.Load() > before })
					busy.Until(t, "the first end has passed", func() bool { return time.Since(granted) > span+10*time.Millisecond })
				} else {
					busy.Until(t, "its session looks whether the end has passed", func() bool { return via.Requests(zktest.OpSetData) > asked })
				}
				hold.Release()
				break
			}
			sweeps(t, a, raw)
			if w := join(t, b, aMutex(q)); w.Held {
				t.Fatalf("two hold: %q", nodes(t, raw, "/a/"+q))
			}
		})
	}
}

// sweeps waits until a session has looked once more which of its tickets are over.
func sweeps(t *testing.T, s *driver.Opened, raw *zk.Conn) {
	t.Helper()
	r := aMutex("later")
	r.Hold = time.Millisecond
	holds(t, s, r)
	busy.Until(t, "its session has removed what has ended", func() bool { return len(nodes(t, raw, "/a/later")) == 0 })
}

// Promise: a ticket that gets a fixed end, since it is granted, just when its session
// removes it, for it has not been renewed, is not told to be held, or stands.
func TestAGrantWithAFixedEndIsNotRemoved(t *testing.T) {
	b := alone(t)
	const ttl = 4 * time.Second
	a := b.next()
	a.Opened = session(t, a.d, ttl)
	h, r := b.holds(aMutex("q")), aMutex("q")
	r.Hold = time.Hour
	w := a.waits(r)
	joined, granted := time.Now(), a.awaits(w)
	for time.Since(joined) < ttl*7/10 { // without naming it
		_, err := a.Renew(limited(t), nil)
		noError(t, err)
		time.Sleep(ttl / 20)
	}
	hold := a.via.HoldRequests(zktest.With(zktest.OpMulti)) // that gives it its end, and all that follows
	b.leaves(h)
	var got answer
	select {
	case <-hold.Held():
		time.Sleep(time.Until(joined.Add(ttl + ttl/10))) // until its session wants to remove it
		hold.Release()
		got = <-granted
	case got = <-granted: // this machine was late: its session has removed it before
		hold.Release()
	}
	if got.err != nil && !errors.Is(got.err, driver.ErrGone) {
		t.Errorf("Await: %v", got.err)
	}
	if !got.Held {
		return
	}
	sweeps(t, a.Opened, a.raw)
	b.waits(aMutex("q"))
}

// Promise: a holder whose node is replaced by another goes on to hold: who waits behind it
// does not take it for gone.
func TestWhoWaitsIsNotGrantedWhenTheHoldersNodeIsReplaced(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	a, c := session(t, opened(t, s.Addr), 20*time.Second), session(t, opened(t, s.Addr), 20*time.Second)
	for what, replace := range map[string]struct {
		hold   time.Duration
		change func(h driver.Ticket) error
	}{
		"shrunk":          {0, func(h driver.Ticket) error { return a.Shrink(limited(t), h, 1) }},
		"kept":            {0, func(h driver.Ticket) error { return a.Keep(limited(t), h, time.Hour) }},
		"kept by another": {2 * time.Hour, func(h driver.Ticket) error { return c.Keep(limited(t), h, time.Hour) }},
	} {
		t.Run(what, func(t *testing.T) {
			via := zktest.NewProxy(t, s.Addr)
			b := session(t, opened(t, via.Addr), 20*time.Second)
			q := someID()
			r := writer(q, someID())
			r.Hold = replace.hold
			h := holds(t, a, r)
			front := "/a/" + q + "/" + nodes(t, raw, "/a/"+q)[0]
			var watched, next atomic.Bool // who waits watches the node, or that in its place
			asked := map[int32]string{}
			via.Observe(func(f zktest.Frame) {
				switch {
				case f.Op != zktest.OpSetWatches:
				case !f.Reply:
					asked[f.Xid] = string(f.Body)
				case f.Err == 0 && strings.Contains(asked[f.Xid], "0000000000"):
					its := strings.Contains(asked[f.Xid], front)
					watched.Store(watched.Load() || its)
					next.Store(next.Load() || !its)
				}
			})
			w := join(t, b, writer(q, someID()))
			granted := make(chan error, 1)
			go func() { _, err := b.Await(limited(t), w); granted <- err }()
			busy.Until(t, "who waits watches the holder", watched.Load)
			noError(t, replace.change(h))
			busy.Until(t, "who waits watches the node in its place", func() bool {
				select {
				case err := <-granted:
					t.Fatalf("two hold: %q, %v", nodes(t, raw, "/a/"+q), err)
				default:
				}
				return next.Load()
			})
			noError(t, a.Leave(limited(t), h, true))
			noError(t, <-granted)
		})
	}
}

// Promise: a ticket whose time is over is not renewed any more, even if its session could
// not remove it yet.
func TestATicketThatIsAboutToBeRemovedIsNotRenewed(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	raw := connected(t, s.Addr)
	a := session(t, opened(t, via.Addr), 3*time.Second)
	h := holds(t, a, aMutex("q"))
	_, err := raw.SetACL("/a/q", zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
	noError(t, err)
	beat(t, a) // without naming it
	busy.Until(t, "its session tries to remove it", func() bool { return via.Requests(zktest.OpDelete) > 0 })
	answers, err := a.Renew(limited(t), []driver.Ticket{h})
	noError(t, err)
	if len(answers) != 1 || answers[0].ID != h.ID || answers[0].State != driver.Gone {
		t.Errorf("it is renewed: %+v", answers)
	}
	_, err = raw.SetACL("/a/q", zk.WorldACL(zk.PermAll), -1)
	noError(t, err)
	empties(t, raw)
}

// Promise: a Join that is repeated in another session is not served by the ticket of the
// first, which goes with that.
func TestAJoinIsNotServedByTheTicketOfAnEarlierSession(t *testing.T) {
	a := alone(t)
	r := aMutex("q")
	a.holds(r)
	r.Retry = true
	a.next().holds(r)
	noError(t, a.Close(limited(t)))
	a.next().waits(aMutex("q"))
}

// Promise: a session for which a server grants less than before proves nothing by
// its old timeout.
func TestAShorterTimeoutEndsTheSession(t *testing.T) {
	t.Parallel()
	for _, whose := range []string{"own", "given"} {
		t.Run(whose, func(t *testing.T) {
			s := zktest.Start(t)
			d := opened(t, s.Addr)
			if whose == "given" {
				d, _ = given(t, 10*time.Second, s.Addr)
			}
			a := session(t, d, 10*time.Second)
			h := holds(t, a, aMutex("q"))
			f, err := os.OpenFile(filepath.Join(s.Dir, "zoo.cfg"), os.O_APPEND|os.O_WRONLY, 0)
			noError(t, err)
			_, err = fmt.Fprintf(f, "\nmaxSessionTimeout=1000\n")
			noError(t, errors.Join(err, f.Close()))
			s.Restart()
			busy.Until(t, "the session is over", func() bool {
				answers, err := a.Renew(limited(t), []driver.Ticket{h})
				if err == nil && slices.ContainsFunc(answers, func(r driver.Renewed) bool { return r.Proof > h.Proof }) {
					t.Fatalf("a session of 1 s proves %v: %+v", a.TTL, answers)
				}
				return errors.Is(err, driver.ErrSession)
			})
			empties(t, connected(t, s.Addr)) // also on a connection that goes on
		})
	}
}

// Promise: when the sequence numbers of a queue are used up, nobody holds with the
// last one, which ZooKeeper gives again and again; numbering begins anew.
func TestLastSequenceNumber(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	d := opened(t, s.Addr)
	a := session(t, d, 40*time.Second)
	h := holds(t, a, aMutex("q"))
	s.SetSequence("/a/q", 1<<31-3)
	raw := connected(t, s.Addr)
	_ = quit(t, a, h)
	var last driver.Ticket
	refused := false
	for i := range 6 {
		r := aMutex("q")
		r.ID = fmt.Sprintf("%x", 15-i) + r.ID[1:] // by its ID, it would be in front of those before it
		got, err := a.Join(limited(t), r)
		switch {
		case err != nil && strings.Contains(err.Error(), "sequence numbers"):
			refused = true
			busy.Until(t, "the node is made anew", func() bool { return len(nodes(t, raw, "/a/q")) == 0 })
			continue
		case err != nil || !got.Held || got.Token <= last.Token:
			t.Fatalf("grant %d after %+v: %+v %v", i, last, got, err)
		}
		last = got
		for _, n := range nodes(t, raw, "/a/q") {
			if strings.HasSuffix(n, "2147483647") {
				t.Fatalf("the last number holds: %q", n)
			}
		}
		noError(t, a.Leave(limited(t), got, true))
	}
	if !refused {
		t.Error("the last number was not refused")
	}
	if n := nodes(t, raw, "/a/q"); len(n) > 0 {
		t.Errorf("left: %q", n)
	}

	// A number of permits that was set is kept.
	noError(t, d.Resize(limited(t), "s", 3))
	one := holds(t, a, permits("s", 1, 3))
	s.SetSequence("/a/s", 1<<31-3)
	_ = quit(t, a, one)
	raw = connected(t, s.Addr)
	refused = false
	for range 6 {
		got, err := a.Join(limited(t), permits("s", 3, 3))
		if err != nil && strings.Contains(err.Error(), "sequence numbers") {
			refused = true
			for end := time.Now().Add(10 * time.Second); !slices.Contains(nodes(t, raw, "/a/s"), "_c_set3-number-0000000000"); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the node is not made anew: %q", nodes(t, raw, "/a/s"))
				}
			}
			continue
		}
		noError(t, err)
		noError(t, a.Leave(limited(t), got, true))
	}
	if _, err := a.Join(limited(t), permits("s", 1, 4)); !refused || !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("the last number was refused: %v; 1 of 4 permits: %v", refused, err)
	}
}

// Promise: those who get the last number while others hold and wait do not stand, and
// those who stand are served in their order.
func TestLastSequenceNumberBehindOthers(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	d := opened(t, s.Addr)
	a := session(t, d, 40*time.Second)
	h := holds(t, a, aMutex("q"))
	s.SetSequence("/a/q", 1<<31-2)
	raw := connected(t, s.Addr)
	var w driver.Ticket
	busy.Until(t, "one more gets in line", func() bool { // the server has just come back
		r := aMutex("q")
		got, err := a.Join(limited(t), r)
		w = driver.Ticket{ID: r.ID, Queue: "q"}
		if err != nil {
			_ = quit(t, a, w)
		}
		return err == nil && !got.Held
	})
	for range 5 {
		got, err := a.Join(limited(t), aMutex("q"))
		if err == nil && (got.Held || !strings.Contains(nodeOf(t, raw, got), "-lock--")) {
			t.Fatalf("the last number stands: %+v %q", got, nodes(t, raw, "/a/q"))
		}
		if err == nil { // the server was about to remove the one before, and went on counting
			noError(t, a.Leave(limited(t), got, true))
		}
	}
	busy.Until(t, "two stand", func() bool { return len(nodes(t, raw, "/a/q")) == 2 })
	noError(t, a.Leave(limited(t), h, true))
	if got, err := a.Await(limited(t), w); err != nil || !got.Held {
		t.Fatalf("%+v %v", got, err)
	}
	noError(t, a.Leave(context.Background(), w, true))
}

// Promise: nor is who comes to watch the holder's node when that has just been replaced: it has gone by then.
func TestWhoWatchesANodeThatWasReplacedIsNotGranted(t *testing.T) {
	a := alone(t)
	b := a.next()
	for i := range 5 {
		q := fmt.Sprintf("q%d", i)
		h := a.holds(aMutex(q))
		watches := b.via.HoldRequests(zktest.With(zktest.OpSetWatches))
		r := aMutex(q)
		w := b.waits(r)
		granted := b.awaits(w)
		<-watches.Held()
		noError(t, a.Keep(limited(t), h, time.Hour))
		lists := b.via.Requests(zktest.OpGetChildren2)
		watches.Release()
		busy.Until(t, "it looks again", func() bool {
			b.notGranted(granted)
			return b.via.Requests(zktest.OpGetChildren2) > lists
		})
		b.stillWaits(r)
		b.notGranted(granted)
		a.leaves(h)
		b.granted(granted)
		b.leaves(w)
	}
}

// Promise: a waiter whose node is removed right before its turn has come is not granted, even
// if it hears of both at once, or while it asks how the holder has left.
func TestWhoIsRemovedBeforeItsTurnIsNotGranted(t *testing.T) {
	a := alone(t)
	b := a.next()
	for i := range 30 {
		asks := i%3 == 0
		q := fmt.Sprintf("q%d", i)
		wait := watching(b.via, "/a/"+q)
		r := aMutex(q)
		r.ReportDeath = asks
		h, w := a.holds(aMutex(q)), b.waits(r)
		own := "/a/" + q + "/" + nodeOf(t, a.raw, w)
		granted := b.awaits(w)
		wait(2)                                       // the holder and its own node
		noError(t, b.d.Raise(limited(t), "other", 0)) // they are answered: replies come in order
		hold := b.via.HoldReplies(func(f zktest.Frame) bool { return !asks && f.Op == zktest.OpEvent })
		question := b.via.HoldRequests(func(f zktest.Frame) bool { return asks && f.Op == zktest.OpGetData && f.Path == "/a/"+q })
		if asks {
			a.leaves(h)
			<-question.Held()
		}
		noError(t, a.raw.Delete(own, -1))
		if !asks {
			a.leaves(h)
		}
		hold.Release()
		question.Release()
		if got := <-granted; !errors.Is(got.err, driver.ErrGone) {
			t.Fatalf("granted, and it does not stand: %q, %+v", a.nodes(q), got)
		}
	}
}
