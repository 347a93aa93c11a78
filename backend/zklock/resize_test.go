package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

func permits(queue string, units, of int64) driver.Request {
	return driver.Request{ID: someID(), Queue: queue, Kind: driver.Semaphore, Units: units, Capacity: of}
}

// stories run beside each other, each with a server and two clients. The second one has used another lock, so that a
// grant needs no request after the list of the queue.
func stories(t *testing.T, all map[string]func(p, late *party)) {
	t.Parallel()
	for what, story := range all {
		t.Run(what, func(t *testing.T) {
			p := alone(t)
			late := p.next()
			late.passes(aMutex("other"))
			story(p, late)
		})
	}
}

// Promise: while a number is set, who is granted, and of whom the setting does not know, keeps what it has: others are
// granted what is left beside it, and to evict it is to ask for it. Another kind that comes is kept, and the number is
// not. What a number says of who holds is said of nobody who comes after its queue's node was made anew.
func TestWhatHappensWhileANumberIsSet(t *testing.T) {
	frontLeaves := func(i int) func(p, late *party) {
		return func(p, late *party) {
			front := []driver.Ticket{p.holds(permits("q", 3, 5)), p.waits(permits("q", 3, 5))}
			next := late.waits(permits("q", 1, 5))
			end := p.next().resizing("q", 2)
			p.leaves(front[i])
			late.granted(late.awaits(next))
			noError(p.t, end())
			if found := p.shows("q"); len(found.Members) != 2 || !found.Members[0].Held || !found.Members[1].Held || found.Capacity != 2 {
				p.t.Errorf("it is shown as %+v", found)
			}
			p.evicts(late, next)
		}
	}
	comesOnceForgotten := func(units int64) func(p, late *party) {
		return func(p, late *party) {
			p.resizes("q", 8)
			before := p.holds(permits("q", 1, 8))
			p.resizes("q", 0)
			end := p.next().resizing("q", 10)
			noError(p.t, p.Leave(limited(p.t), before, false))
			k := late.holds(permits("q", units, 20))
			noError(p.t, end())
			p.evicts(late, k)
		}
	}
	madeAnew := func(numbers int) func(p, late *party) {
		return func(p, late *party) {
			use := func(times int) {
				for range times {
					p.passes(permits("q", 1, 1))
				}
			}
			use(10)
			before := p.holds(permits("q", 1, 1))
			end := p.next().resizing("q", 1)
			p.leaves(before)
			p.vanishes("/a/q")
			use(numbers)
			held, r := late.holds(permits("q", 1, 1)), permits("q", 1, 1)
			last := p.next()
			last.waits(r)
			noError(p.t, end())
			last.stillWaits(r)
			late.leaves(held)
		}
	}
	stories(t, map[string]func(p, late *party){
		"one comes": func(p, late *party) {
			p.holds(permits("q", 1, 5))
			end := p.next().resizing("q", 4)
			k := late.holds(permits("q", 4, 5))
			noError(p.t, end())
			r := permits("q", 1, 4)
			next := p.waits(r)
			p.resizes("q", 3)
			p.stillWaits(r)
			p.evicts(late, k)
			p.granted(p.awaits(next))
		},
		"one comes whose end is fixed, and outlives its session": func(p, late *party) {
			p.holds(permits("q", 1, 5))
			end := p.next().resizing("q", 3)
			r := permits("q", 4, 5)
			r.Hold = time.Hour
			k := late.holds(r)
			noError(p.t, errors.Join(end(), late.Close(limited(p.t))))
			r.Retry = true
			if got := p.next().holds(r); got.Token != k.Token {
				p.t.Errorf("the token %d, after %d", got.Token, k.Token)
			}
			if m := p.shows("q").Members; len(m) != 2 || !m[1].Held {
				p.t.Errorf("it is shown as %+v", m)
			}
		},
		"a holder leaves": frontLeaves(0),
		"a waiter leaves": frontLeaves(1),
		"a number is forgotten, and one asks for more than there is": comesOnceForgotten(20),
		"a number is forgotten, and one asks for less":               comesOnceForgotten(5),
		"the queue is made anew, with smaller numbers of nodes":      madeAnew(0),
		"the queue is made anew, with numbers as large":              madeAnew(9),
		"the queue is made anew where nobody was": func(p, late *party) {
			for range 10 {
				p.passes(permits("q", 1, 1))
			}
			end := p.next().resizing("q", 1)
			p.vanishes("/a/q")
			k := late.holds(permits("q", 2, 2))
			noError(p.t, end())
			p.evicts(late, k)
		},
		"another kind comes": func(p, late *party) {
			p.passes(aMutex("q"))
			end := p.next().resizing("q", 2)
			mutex := late.holds(aMutex("q"))
			p.refused(end())
			if found := p.shows("q"); found.Resized || len(found.Members) != 1 {
				p.t.Errorf("beside the mutex: %+v", found)
			}
			late.leaves(mutex)
			p.holds(permits("q", 5, 5))
		},
		"another kind comes where a number is set": func(p, late *party) {
			p.passes(aMutex("q"))
			p.resizes("q", 8)
			end := p.next().resizing("q", 5)
			hears := late.unheard(aMutex("q"))
			p.refused(end())
			got := hears()
			noError(p.t, got.err)
			if got.Held {
				late.leaves(got.Ticket)
			}
			p.refuses(permits("q", 1, 7)) // the number stays
		},
		"another kind comes and goes, and another number is set, which is not taken back": func(p, late *party) {
			p.passes(aMutex("q"))
			setter := p.next()
			end := setter.resizing("q", 5)
			mutex := late.holds(aMutex("q"))
			takesBack := setter.via.HoldRequests(zktest.With(zktest.OpMulti))
			ended := make(chan error, 1)
			go func() { ended <- end() }()
			<-takesBack.Held()
			late.leaves(mutex)
			p.resizes("q", 6)
			takesBack.Release()
			p.refused(<-ended)
			if found := p.shows("q"); !found.Resized || found.Capacity != 6 {
				p.t.Errorf("the number of another: %+v", found)
			}
		},
		"another kind comes and goes, and others are granted by the number that is taken back": func(p, late *party) {
			p.passes(aMutex("q"))
			setter := p.next()
			end := setter.resizing("q", 5)
			mutex := p.holds(aMutex("q"))
			hears := late.unheard(permits("q", 1, 8))
			takesBack := setter.via.HoldRequests(zktest.With(zktest.OpMulti))
			ended := make(chan error, 1)
			go func() { ended <- end() }()
			<-takesBack.Held()
			p.leaves(mutex)
			first := hears()
			if first.err != nil || !first.Held {
				p.t.Fatalf("1 of 5 that were set: %+v", first)
			}
			other := p.next()
			second := other.holds(permits("q", 4, 5))
			takesBack.Release()
			p.refused(<-ended)
			p.next().refuses(permits("q", 1, 8))
			late.leaves(first.Ticket) // they stand
			other.leaves(second)
		},
		"a waiter is evicted that the first number lets in":                   evictedAsTheNumberGrows(0),
		"a waiter is evicted that another number lets in":                     evictedAsTheNumberGrows(5),
		"another kind is about to be refused":                                 aboutToBeRefused(false),
		"another kind is about to be refused by a number that was taken back": aboutToBeRefused(true),
	})
}

// evictedAsTheNumberGrows: a waiter that is evicted when a larger number lets it in is asked, as a holder is.
func evictedAsTheNumberGrows(number int64) func(p, late *party) {
	return func(p, late *party) {
		if number > 0 {
			p.resizes("q", number)
		}
		p.holds(permits("q", 4, 5))
		w := p.waits(permits("q", 2, 5))
		end := late.stopped(zktest.With(zktest.OpMulti), func(ctx context.Context) error { return late.d.Ask(ctx, "q", w.ID, driver.Evict) })
		p.resizes("q", 6)
		p.granted(p.awaits(w))
		noError(p.t, end())
		p.leaves(w) // it stands
	}
}

// aboutToBeRefused: a number that is set stays though a lock of another kind is about to be refused because of one of
// before.
func aboutToBeRefused(takenBack bool) func(p, late *party) {
	return func(p, late *party) {
		p.passes(permits("q", 1, 8))
		p.resizes("q", 8)
		if takenBack {
			p.holds(permits("q", 1, 8))
			p.resizes("q", 0)
		}
		hears := late.unheard(aMutex("q"))
		p.resizes("q", 5)
		p.refused(hears().err)
		if found := p.shows("q"); !found.Resized || found.Capacity != 5 {
			p.t.Errorf("another number is shown as %+v", found)
		}
	}
}

// Promise: who is to be refused for its number or kind, but is granted since that number is forgotten, or another one
// is set, before its client hears of its node, is not expelled by one who has listed the queue before that, or by who
// sets another number.
func TestWhoIsGrantedAfterAllIsNotExpelled(t *testing.T) {
	// expels: late joins as one who disagrees, and another one, who agrees, is about to remove it when forget is
	// called.
	expels := func(disagrees, agrees int64, agreesAfter bool, number func(p *party) (forget func())) func(p, late *party) {
		return func(p, late *party) {
			forget := number(p)
			hears := late.unheard(permits("q", 1, disagrees))
			other := p.next()
			end := other.stopped(zktest.With(zktest.OpMulti), func(ctx context.Context) error {
				_, err := other.Join(ctx, permits("q", 1, agrees))
				return err
			})
			forget()
			got := hears()
			if got.err != nil || !got.Held {
				p.t.Errorf("1 of %d permits: %+v", disagrees, got)
			}
			if err := end(); agreesAfter {
				noError(p.t, err)
			} else {
				p.refused(err)
			}
			late.leaves(got.Ticket) // it stands
		}
	}
	stories(t, map[string]func(p, late *party){
		"its number is set": expels(6, 5, true, func(p *party) func() {
			p.holds(permits("q", 1, 5))
			return func() { p.resizes("q", 6) }
		}),
		"a number that was taken back is forgotten": expels(5, 8, false, func(p *party) func() {
			p.resizes("q", 8)
			before := p.holds(permits("q", 2, 8))
			p.resizes("q", 0)
			return func() { p.leaves(before) }
		}),
		"the end of the last ticket of such a number has passed": expels(5, 8, false, func(p *party) func() {
			endedBefore(p)
			return func() {} // whoever joins removes it
		}),
		"the one in front has left": func(p, late *party) {
			held := p.holds(aMutex("q"))
			hears := late.unheard(permits("q", 5, 5))
			third := p.next()
			end := third.stopped(zktest.With(zktest.OpMulti), func(ctx context.Context) error {
				_, err := third.Join(ctx, aMutex("q"))
				return err
			})
			p.leaves(held)
			got := hears()
			if got.err != nil || !got.Held {
				p.t.Errorf("once the first has left: %+v", got)
			}
			p.refused(end())
			late.leaves(got.Ticket) // it stands
		},
		"such an end has passed, and another number is set": func(p, late *party) {
			endedBefore(p)
			hears := late.unheard(aMutex("q"))
			end := p.next().resizing("q", 5) // it must not remove the mutex
			got := hears()
			if got.err != nil || !got.Held {
				p.t.Errorf("a mutex, once the number is forgotten: %+v", got)
			}
			p.refused(end())
			late.leaves(got.Ticket) // it stands
		},
	})
}

// endedBefore puts a number into a queue that was taken back, 8, and in front of it a ticket whose fixed end has
// passed: the number counts until somebody lists the line, and removes the ticket.
func endedBefore(p *party) {
	p.passes(aMutex("q"))
	all := zk.WorldACL(zk.PermAll)
	for _, node := range []string{"_c_6f2c1f0e-7a0b-4a5c-9d3e-0123456789ab-until1-permits2of8-lock-", "_c_unset8_unsure-1-number-"} {
		_, err := p.raw.Create("/a/q/"+node, nil, zk.FlagSequence, all)
		noError(p.t, err)
	}
	_, err := p.raw.Create("/a/q/_c_permits", nil, zk.FlagPersistent, all)
	noError(p.t, err)
}

// Promise: a ticket that is removed before its client looks whether it is held is not told so, though whoever stands
// there then is alone, too, or the one in front of it has held, and left, by then.
func TestWhoIsRemovedBeforeItLooksIsNotGranted(t *testing.T) {
	// removed: behind is who stands in front; removes is what removes the ticket. It looks while its node is made: it
	// may look too early, and then nothing is removed.
	removed := func(r driver.Request, behind bool, removes func(p *party, k driver.Request), next driver.Request) func(p, late *party) {
		return func(p, late *party) {
			for i := range 200 {
				r, next := r, next
				r.Queue, r.ID = fmt.Sprint("q", i), someID() // of which it knows nothing
				next.Queue, next.ID = r.Queue, someID()
				var front []driver.Ticket
				if k := p.holds(r); behind {
					front = append(front, k)
				} else {
					p.leaves(k)
				}
				r.ID = someID()
				looks := late.via.HoldRequests(zktest.With(zktest.OpGetChildren2))
				joined := late.joins(r)
				<-looks.Held()
				if len(p.nodes(r.Queue)) == len(front) {
					looks.Release()
					got := <-joined
					if got.Held == behind {
						p.t.Fatalf("it looks, and is told: %+v", got)
					}
					noError(p.t, got.err)
					late.leaves(got.Ticket)
					p.leaves(front...)
					continue
				}
				removes(p, r)
				p.leaves(front...)
				last := p.holds(next)
				looks.Release()
				if got := <-joined; got.err == nil && got.Held {
					p.t.Errorf("it was removed, and is told that it holds: %+v", got.Ticket)
				}
				p.leaves(last)
				return
			}
			p.t.Error("it always looks before its node is made")
		}
	}
	ask := func(what driver.Demand) func(p *party, r driver.Request) {
		return func(p *party, r driver.Request) { noError(p.t, p.d.Ask(limited(p.t), r.Queue, r.ID, what)) }
	}
	stories(t, map[string]func(p, late *party){
		"alone":                removed(aMutex(""), false, ask(driver.Force), aMutex("")),
		"behind a holder":      removed(aMutex(""), true, ask(driver.Evict), aMutex("")),
		"too large by now":     removed(permits("", 5, 5), true, func(p *party, r driver.Request) { p.resizes(r.Queue, 3) }, permits("", 3, 3)),
		"by a number":          removedBesideAnEnd(aMutex("q"), true),
		"by one who disagrees": removedBesideAnEnd(permits("q", 1, 5), false),
	})
}

// removedBesideAnEnd: a ticket that is removed while its client removes one in front of it, whose end has passed, is
// not granted.
func removedBesideAnEnd(r driver.Request, byNumber bool) func(p, late *party) {
	return func(p, late *party) {
		for span, tooLate := time.Second, true; tooLate; span *= 2 {
			r.ID, r.Queue = someID(), span.String()
			p.passes(aMutex(r.Queue))
			ends := permits(r.Queue, 2, 8)
			ends.Hold = span
			p.holds(ends)
			end := func() (ms int64) {
				for _, n := range p.nodes(r.Queue) {
					if _, n, ok := strings.Cut(n, "-until"); ok {
						n, _, _ = strings.Cut(n, "-")
						ms, _ = strconv.ParseInt(n, 10, 64)
					}
				}
				return ms
			}
			busy.Until(p.t, "it has an end", func() bool { return end() != 0 })
			ms := end()
			looks := late.via.HoldRequests(zktest.With(zktest.OpSetData)) // it reads the clock
			joined := late.joins(r)
			select {
			case <-looks.Held():
			case got := <-joined: // the span was over before
				looks.Release()
				_ = quit(p.t, late.Opened, got.Ticket)
				continue
			}
			next := permits(r.Queue, 8, 8)
			if byNumber {
				next = permits(r.Queue, 3, 3)
				p.resizes(r.Queue, 3)
			} else {
				p.waits(next)
				next.Retry = true
			}
			tooLate = end() == 0
			busy.Until(p.t, "the end has passed", func() bool {
				stat, err := p.raw.Set("/", nil, -1) // it stays
				noError(p.t, err)
				return stat.Mtime > ms
			})
			looks.Release()
			got := <-joined
			last := join(p.t, p.Opened, next)
			if got.err == nil && got.Held && last.Held {
				p.t.Errorf("two hold: %+v beside %+v", got.Ticket, last)
			}
		}
	}
}

// Promise: a number is set though those in front come and go the whole time, and nobody whom they let in is taken
// for one who waits.
func TestANumberIsSetThoughHoldersComeAndGo(t *testing.T) {
	a := alone(t)
	b, setter := a.next(), a.next()
	front, next := a.holds(permits("q", 3, 3)), b.waits(permits("q", 3, 3))
	hold := setter.via.HoldRequests(zktest.Nth(2, zktest.OpMulti))
	ended := make(chan error, 1)
	go func() { ended <- setter.d.Resize(limited(t), "q", 2) }()
	for tries := 0; tries <= 20; tries++ {
		select {
		case <-hold.Held():
		case err := <-ended:
			noError(t, err)
			a.evicts(a, front) // who was let in last
			if got := <-b.awaits(next); !errors.Is(got.err, driver.ErrGone) {
				t.Errorf("3 of 2 permits: %+v", got)
			}
			if q := a.shows("q"); q.Capacity != 2 || len(q.Members) != 0 {
				t.Errorf("%+v", q)
			}
			return
		}
		later := a.waits(permits("q", 3, 3))
		a.leaves(front)
		b.granted(b.awaits(next))
		a, b, front, next = b, a, next, later
		then := setter.via.HoldRequests(zktest.With(zktest.OpMulti))
		hold.Release()
		hold = then
	}
	t.Fatal("it is never set")
}

// watching waits until a client has asked for so many watches of nodes below the path, or has had time to.
func watching(via *zktest.Proxy, path string) (wait func(n int32)) {
	var asked atomic.Int32
	via.Observe(func(f zktest.Frame) {
		if !f.Reply && f.Op == zktest.OpSetWatches {
			asked.Add(int32(strings.Count(string(f.Body), path+"/")))
		}
	})
	return func(n int32) {
		for end := time.Now().Add(5 * time.Second); asked.Load() < n && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
}

// Promise: who waits hears of each number, and is not granted by one of before, even if it hears at once that
// the number is smaller and that one in front has left.
func TestWhoWaitsHearsOfEachNumber(t *testing.T) {
	a := alone(t)
	b := a.next()
	for i := range 12 {
		q := fmt.Sprintf("q%d", i)
		if i%2 == 1 {
			a.resizes(q, 5)
		}
		one, other := a.holds(permits(q, 3, 5)), a.holds(permits(q, 2, 5))
		noError(t, a.d.Raise(limited(t), "other", uint64(i+1)<<40)) // it is read by who waits, after what is held back below
		r := permits(q, 2, 5)
		wait := watching(b.via, "/a/"+q)
		hold := b.via.HoldReplies(func(f zktest.Frame) bool { // so that all comes at once
			return f.Op == zktest.OpSetWatches
		})
		w := b.waits(r)
		granted := b.awaits(w)
		<-hold.Held()
		wait(4) // its node, both holders and the number
		a.resizes(q, 4)
		a.leaves(other)
		hold.Release()
		wait(5) // the number again; what is added to tokens was read before, so that it has heard of both
		b.stillWaits(r)
		b.notGranted(granted)
		a.resizes(q, 5)
		b.granted(granted)
		a.leaves(one)
		b.leaves(w)
	}
}

// Promise: who looks at the line because of a number is not granted by that number, if another one is set meanwhile and
// the one in front leaves.
func TestWhoLooksAtANumberIsNotGrantedByIt(t *testing.T) {
	a := alone(t)
	b := a.next()
	for i := range 10 {
		q := fmt.Sprintf("q%d", i)
		r := permits(q, 2, 4)
		all, first := a.holds(permits(q, 4, 4)), a.waits(permits(q, 2, 4))
		wait := watching(b.via, "/a/"+q)
		w := b.waits(r)
		granted := b.awaits(w)
		wait(3) // its node, the holder and the number
		hold := b.via.HoldReplies(zktest.With(zktest.OpGetChildren2))
		a.resizes(q, 4)
		<-hold.Held()
		a.resizes(q, 2)
		a.leaves(all)
		hold.Release()
		a.granted(a.awaits(first))
		b.stillWaits(r)
		b.notGranted(granted)
		a.leaves(first)
		b.granted(granted)
		b.leaves(w)
	}
}

// Promise: who holds as many permits as there are by now, beside another one, lets nobody in by leaving whom that one
// keeps out.
func TestWhoHoldsBesideAnotherLeavesNoMark(t *testing.T) {
	a := alone(t)
	b, c := a.next(), a.next()
	one, r := a.holds(permits("q", 1, 3)), permits("q", 2, 3)
	two := b.holds(r)
	a.resizes("q", 2)
	r.Retry = true
	b.holds(r) // it has seen the number
	all := permits("q", 2, 2)
	wait := watching(c.via, "/a/q")
	last := c.waits(all)
	granted := c.awaits(last)
	wait(3)                                       // its node, who holds two, and the number
	noError(t, c.d.Raise(limited(t), "other", 0)) // they are answered: replies come in order
	b.leaves(two)
	for range 5 {
		c.stillWaits(all)
	}
	c.notGranted(granted)
	a.leaves(one)
	c.granted(granted)
}

// Promise: who is granted permits beside another is told that the last one who had them all died, though that
// other one had as many as there were in between; a number that is set is nobody who has died, and makes nobody
// forgotten who has.
func TestWhoHasDiedAndANumber(t *testing.T) {
	robust := func(q string, units, of int64) driver.Request {
		r := permits(q, units, of)
		r.ReportDeath = true
		return r
	}
	a := alone(t)
	b := a.next()
	all := a.holds(robust("q", 3, 3))
	two, other, r := b.waits(robust("q", 2, 3)), b.waits(robust("q", 1, 3)), robust("q", 1, 3)
	last := b.waits(r)
	noError(t, a.Leave(limited(t), all, false))
	a.resizes("q", 2)
	b.granted(b.awaits(two))
	b.stillWaits(r) // it has seen who holds two of two
	b.leaves(other)
	b.stillWaits(r)
	a.resizes("q", 3)
	if got := b.granted(b.awaits(last)); !got.Inherited {
		t.Errorf("beside one of two: %+v", got)
	}

	for _, q := range []string{"none came", "one left", "one died"} {
		ends := func(clean, inherits bool) {
			t.Helper()
			k := a.holds(robust(q, 1, 1))
			if k.Inherited != inherits {
				t.Errorf("%s: after the number: Inherited %v", q, k.Inherited)
			}
			noError(t, a.Leave(limited(t), k, clean))
		}
		if q != "none came" {
			ends(true, false)
		}
		if q == "one died" {
			ends(false, false)
		}
		a.resizes(q, 1)
		ends(true, q == "one died")
		ends(true, false)
		ends(false, false)
		ends(true, true)
	}
}

// Promise: a waiter that asks for more than the number leaves also if whoever has set it does not remove it: nobody
// waits behind it.
func TestWhoNeverFitsLeavesByItself(t *testing.T) {
	a := alone(t)
	b, setter := a.next(), a.next()
	held, r := a.holds(permits("q", 2, 5)), permits("q", 4, 5)
	heavy, light := b.waits(r), a.waits(permits("q", 1, 5))
	left, granted := b.awaits(heavy), a.awaits(light)
	news := b.via.HoldReplies(zktest.With(zktest.OpEvent))
	setter.via.LoseRequests(1, zktest.Nth(3, zktest.OpMulti))
	if err := setter.d.Resize(limited(t), "q", 3); err == nil {
		t.Fatal("its last transaction was not lost")
	}
	news.Release()
	if got := <-left; !errors.Is(got.err, driver.ErrGone) {
		t.Errorf("4 of 3 permits: %+v", got)
	}
	a.granted(granted)
	setter.resizes("q", 3) // again
	a.leaves(held, light)
}

// Promise: whoever sets a number that it has set already, since the answer was lost, changes nothing; of several who
// set numbers at once one is the last; and nothing is left when it is taken back.
func TestOneNumberIsSet(t *testing.T) {
	a := alone(t)
	setter := a.next()
	settings := func() []string {
		all := slices.DeleteFunc(a.nodes("q"), func(n string) bool { return strings.Contains(n, "permits") && n != "_c_permits" })
		slices.Sort(all)
		return all
	}
	setter.via.LoseReplies(1, zktest.Nth(2, zktest.OpMulti))
	if err := setter.d.Resize(limited(t), "q", 3); err == nil {
		t.Fatal("no answer was lost")
	}
	before := settings()
	setter.resizes("q", 3)
	if after := settings(); len(after) != 2 || !slices.Equal(before, after) {
		t.Errorf("%q after %q", after, before)
	}
	a.resizes("q", 0)
	for round := range 5 {
		var setting sync.WaitGroup
		for i := range 4 {
			setting.Go(func() {
				if err := opened(t, a.server.Addr).Resize(limited(t), "q", int64(2+i)); err != nil {
					t.Error(err)
				}
			})
		}
		setting.Wait()
		if all := settings(); len(all) != 2 {
			t.Errorf("round %d: %q", round, all)
		}
	}
	held := a.holds(permits("q", 1, a.shows("q").Capacity))
	a.resizes("q", 0)
	a.leaves(held)
	a.passes(permits("q", 7, 7))
	empties(t, a.raw)
}

// Promise: where the number that was set cannot be read nobody is granted, and told what to do; other names, and other
// leases of the session, are not concerned.
func TestGarbageInANumberGrantsNobody(t *testing.T) {
	a := alone(t)
	a.passes(aMutex("q"))
	for _, node := range []string{
		"_c_set", "_c_set-number-0000000001", "_c_set0-number-0000000001", "_c_set-2-number-0000000001", "_c_set08-number-0000000001", "_c_unsetx-number-0000000001",
		"_c_set8_held-number-0000000001", "_c_set8_unsure99999999999-number-0000000001", "_c_set8_held1_held2-number-0000000001", "_c_set9007199254740992-number-0000000001",
		"_c_set8_other-number-0000000001", "_c_set8__READ__0000000001", "_c_set8-lock-0000000001",
		"_c_set8_held1-number-0000000001", "_c_set8_held0_unsure7-number-0000000001",
	} {
		held := a.holds(permits("q", 1, 2))
		_, err := a.raw.Create("/a/q/"+node, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		noError(t, err)
		for _, r := range []driver.Request{permits("q", 1, 2), permits("q", 1, 8), aMutex("q")} {
			for _, r.NoWait = range []bool{true, false} {
				r.ID = someID()
				_, err := a.Join(limited(t), r)
				refused(t, err, node, "interlock permits")
			}
		}
		refused(t, a.d.Resize(limited(t), "q", 0), node, "interlock permits")
		a.passes(permits("other", 1, 2))
		a.leaves(held)
		a.resizes("q", 3)
		a.passes(permits("q", 3, 3))
		a.resizes("q", 0)
		if left := a.nodes("q"); len(left) != 0 {
			t.Fatalf("left: %q", left)
		}
	}

	a.holds(permits("q", 1, 1))
	b, r := a.next(), permits("q", 1, 1)
	r.Hold = time.Hour
	b.waits(r)
	other := b.holds(aMutex("other"))
	_, err := a.raw.Create("/a/q/_c_set", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	noError(t, err)
	states := errtest.Must(b.Renew(limited(t), []driver.Ticket{other}))(t)
	if !slices.ContainsFunc(states, func(r driver.Renewed) bool { return r.ID == other.ID && r.State == driver.Kept }) {
		t.Errorf("%+v", states)
	}
}

// Promise: a number can be taken back while a lock of Curator stands behind it, and does not count because of that
// lock.
func TestANumberIsTakenBackBesideALockOfCurator(t *testing.T) {
	a := alone(t)
	a.resizes("q", 8)
	before := a.holds(permits("q", 1, 8))
	lock := errtest.Must(a.raw.Create("/a/q/_c_6f2c1f0e-7a0b-4a5c-9d3e-0123456789ab-lock-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll)))(t)
	a.refused(a.d.Resize(limited(t), "q", 5))
	a.resizes("q", 0)
	a.refuses(permits("q", 1, 7))
	a.leaves(before)
	mutex := a.waits(aMutex("q"))
	noError(t, a.raw.Delete(lock, -1))
	a.leaves(a.granted(a.awaits(mutex)))
	a.holds(permits("q", 7, 7))
}

// Promise: the node that tells of the first number stays if it stands alone, since somebody has removed the number's
// node by hand: the next number may need it.
func TestABellThatStandsAloneStays(t *testing.T) {
	a := alone(t)
	a.resizes("q", 3)
	for _, node := range a.nodes("q") {
		if node != "_c_permits" {
			noError(t, a.raw.Delete("/a/q/"+node, -1))
		}
	}
	for range 5 {
		held := a.holds(permits("q", 7, 7))
		a.resizes("q", 0)
		a.leaves(held)
	}
	noError(t, a.d.Close()) // waits for what is done in the background
	if left := a.nodes("q"); !slices.Equal(left, []string{"_c_permits"}) {
		t.Errorf("left: %q", left)
	}
	b := a.next()
	b.resizes("q", 3)
	b.passes(permits("q", 3, 3))
	b.resizes("q", 0)
	if left := a.nodes("q"); len(left) != 0 {
		t.Errorf("left of a number that was taken back: %q", left)
	}
}

// Promise: semaphores in Curator's layout keep their number, and say why; a number that was set for the other layout,
// or one that cannot be read, refuses what has Curator's.
func TestANumberRefusesOtherLayouts(t *testing.T) {
	p := alone(t)
	d := errtest.Must(openURL(t.Context(), "zk://"+p.server.Addr+"/a"+curators))(t)
	t.Cleanup(func() { _ = d.Close() })
	if err := d.Resize(limited(t), "q", 3); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "semaphore=curator") {
		t.Errorf("a number in Curator's layout: %v", err)
	}
	p.resizes("set", 3)
	p.passes(aMutex("garbage"))
	_, err := p.raw.Create("/a/garbage/_c_set", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	noError(t, err)
	a := session(t, d, 20*time.Second)
	for _, q := range []string{"set", "garbage"} {
		member := driver.Request{ID: someID(), Queue: q, Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity}
		for _, r := range []driver.Request{permits(q, 1, 3), member} {
			_, err := a.Join(limited(t), r)
			p.refused(err)
		}
	}
}
