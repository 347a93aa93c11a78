package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

// batched is a store whose lists a test holds back.
type batched struct {
	*exchangetest.Store
	traits exchange.Traits
	alone  string // a change of the queue of this name is to be made alone
	silent string // a change of this one is not answered
	slow   string // a change of this one takes long, and is answered behind the others

	begun chan []exchange.Change
	end   chan struct{}
	cut   chan error // of a list whose context has ended
}

func newBatched(t *testing.T, traits exchange.Traits) (*batched, *driver.Opened) {
	t.Helper()
	g := &batched{Store: exchangetest.NewWorld().Store(), traits: traits,
		begun: make(chan []exchange.Change, 100), end: make(chan struct{}), cut: make(chan error, 100)}
	return g, over(t, struct {
		exchange.Store
		exchange.Traited
	}{g, g})
}

func (g *batched) Traits() exchange.Traits { return g.traits }

func (g *batched) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	g.begun <- slices.Clone(changes)
	select {
	case <-g.end:
	case <-ctx.Done():
		g.cut <- ctx.Err()
		return
	}
	for i, c := range changes {
		switch {
		case c.In() == g.silent, c.In() == g.slow:
		case c.In() == g.alone && len(changes) > 1:
			answer(i, exchange.Answer{Err: exchange.ErrAlone})
		default:
			answer(i, exchange.One(ctx, g.Store, c))
		}
	}
	for i, c := range changes {
		if c.In() == g.slow {
			<-g.end
			answer(i, exchange.One(ctx, g.Store, c))
		}
	}
}

// queues are the names in the next list; nil if none is under way.
func (g *batched) queues() (names []string) {
	synctest.Wait()
	select {
	case all := <-g.begun:
		for _, c := range all {
			names = append(names, c.In())
		}
	default:
	}
	return names
}

func (g *batched) expect(t *testing.T, queues ...string) {
	t.Helper()
	if got := g.queues(); !slices.Equal(got, queues) {
		t.Fatalf("the list changes %q, want %q", got, queues)
	}
}

func in(queue string) driver.Request {
	r := request()
	r.Queue = queue
	return r
}

// joins has a Join begin, and returns where its answer comes.
func joins(ctx context.Context, s driver.Session, r driver.Request) <-chan error {
	answer := make(chan error, 1)
	go func() {
		k, err := s.Join(ctx, r)
		if err == nil && !k.Held {
			err = errors.New("the ticket waits")
		}
		answer <- err
	}()
	synctest.Wait() // its place in the list
	return answer
}

// Promise: a change goes at once, and those that come while it is under way go together, in their order, as
// many as the store takes, and no more of them than there is room for in bytes.
func TestChangesGoTogether(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		bubble.Run(t, func(t *testing.T) {
			g, s := newBatched(t, exchange.Traits{Together: 4, Bounded: bounded})
			var all []<-chan error
			for n := range 6 {
				all = append(all, joins(t.Context(), s, in(fmt.Sprint(n))))
			}
			for n := range 2 {
				r := in(fmt.Sprint("long", n))
				r.Note = make([]byte, 60<<10)
				all = append(all, joins(t.Context(), s, r))
			}
			g.expect(t, "0")
			g.expect(t) // the others wait
			for _, list := range [][]string{{"1", "2", "3", "4"}, {"5", "long0"}, {"long1"}} {
				g.end <- struct{}{}
				g.expect(t, list...)
			}
			close(g.end)
			for _, answer := range all {
				errtest.None(t, <-answer)
			}
		})
	}
}

// Promise: changes of one queue go together, as those of different ones. Only of a store that is OnePerQueue a list has one
// change of each queue: the others go alone, and none of them waits for another. One whose caller has given up before
// that was never sent.
func TestChangesOfOneQueueGoAloneIfOnePerQueue(t *testing.T) {
	for onePerQueue, want := range map[bool][][]string{true: {{"a", "b"}, {"a"}, {"a"}}, false: {{"a", "b", "a", "a"}}} {
		bubble.Run(t, func(t *testing.T) {
			g, s := newBatched(t, exchange.Traits{Together: 8, Bounded: true, OnePerQueue: onePerQueue})
			all := []<-chan error{joins(t.Context(), s, in("first"))}
			g.expect(t, "first")
			for _, queue := range []string{"a", "b", "a", "a"} {
				r := in(queue)
				r.Kind, r.Capacity = driver.Semaphore, 8
				all = append(all, joins(t.Context(), s, r))
			}
			ctx, cancel := context.WithCancel(t.Context())
			gaveUp := in("a")
			joins(ctx, s, gaveUp)
			cancel()
			g.expect(t)
			g.end <- struct{}{}
			var lists [][]string
			for range want {
				lists = append(lists, g.queues())
			}
			slices.SortFunc(lists, func(a, b []string) int { return len(b) - len(a) })
			if !slices.EqualFunc(lists, want, slices.Equal) {
				t.Errorf("the lists are %q, want %q", lists, want)
			}
			g.expect(t)
			close(g.end)
			for _, answer := range all {
				errtest.None(t, <-answer)
			}
			d := exchange.DriverOf(s)
			before := d.Exchanges()
			if err := s.Leave(t.Context(), driver.Ticket{Queue: "a", ID: gaveUp.ID}, true); !errors.Is(err, driver.ErrGone) {
				t.Errorf("what was not sent leaves: %v", err)
			}
			if n := d.Exchanges() - before; n != 0 {
				t.Errorf("that took %d exchanges", n)
			}
		})
	}
}

// Promise: what a holder needs does not wait behind Joins.
func TestAHolderDoesNotWaitBehindJoins(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		g, s := newBatched(t, exchange.Traits{Together: 8})
		held := in("held")
		first := joins(t.Context(), s, held)
		g.expect(t, "held")
		g.end <- struct{}{}
		errtest.None(t, <-first)
		all := []<-chan error{joins(t.Context(), s, in("first")), joins(t.Context(), s, in("second"))}
		g.expect(t, "first")
		left := make(chan error, 1)
		go func() { left <- s.Leave(t.Context(), ticketOf(held), true) }()
		g.expect(t, "held")
		close(g.end)
		for _, answer := range append(all, left) {
			errtest.None(t, <-answer)
		}
	})
}

// Promise: a change that is to be made alone is, at once, and the others have their answers before that. One that
// takes long holds up no answer.
func TestAChangeThatGoesAloneCostsOthersNothing(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		g, s := newBatched(t, exchange.Traits{Together: 8})
		g.alone, g.slow = "busy", "long"
		first := joins(t.Context(), s, in("first"))
		busy, long, free := joins(t.Context(), s, in("busy")), joins(t.Context(), s, in("long")), joins(t.Context(), s, in("free"))
		g.expect(t, "first")
		g.end <- struct{}{}
		g.expect(t, "busy", "long", "free")
		g.end <- struct{}{}
		errtest.None(t, <-first)
		errtest.None(t, <-free)
		g.expect(t, "busy")
		if len(busy) > 0 || len(long) > 0 {
			t.Error("a change is answered that is not made")
		}
		close(g.end)
		errtest.None(t, <-busy)
		errtest.None(t, <-long)
	})
}

// Promise: a change whose caller gives up before it is sent is not made, and what it asked for needs no Leave. One
// that was sent has its ticket left with a tombstone, and the others of its list lose nothing.
func TestACallerThatGivesUpTakesNoOtherWithIt(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		bubble.Run(t, func(t *testing.T) {
			g, s := newBatched(t, exchange.Traits{Together: 8, Bounded: bounded})
			g.alone = "sent" // its caller does not make it any more
			ctx, giveUp := context.WithCancel(t.Context())
			first := joins(t.Context(), s, in("first"))
			unsent := in("unsent")
			never := joins(ctx, s, unsent)
			g.expect(t, "first")
			giveUp()
			errtest.Is(t, <-never, context.Canceled)
			before := exchange.DriverOf(s).Exchanges()
			errtest.Is(t, s.Leave(t.Context(), ticketOf(unsent), true), driver.ErrGone)
			if n := exchange.DriverOf(s).Exchanges() - before; n > 0 {
				t.Errorf("%d exchanges for a ticket that was never asked for", n)
			}

			ctx, giveUp = context.WithCancel(t.Context())
			sent := in("sent")
			late, beside := joins(ctx, s, sent), joins(t.Context(), s, in("beside"))
			g.end <- struct{}{}
			g.expect(t, "sent", "beside")
			giveUp()
			errtest.Is(t, <-late, context.Canceled)
			go func() { _ = s.Leave(t.Context(), ticketOf(sent), true) }()
			synctest.Wait()
			if l, is := (<-g.begun)[0].(*exchange.Leave); !is || l.Tombstone == 0 {
				t.Errorf("the ticket is left by %+v", l)
			}
			close(g.end)
			errtest.None(t, <-first)
			errtest.None(t, <-beside)
			synctest.Wait()
			if len(g.cut) > 0 {
				t.Error(<-g.cut)
			}
			if n := exchange.DriverOf(s).JoinQueues(); n > 0 {
				t.Errorf("%d queues are kept in mind", n)
			}
		})
	}
}

// Promise: a change that was to go alone, and whose caller gives up before that, counts as sent: the network may have
// brought its list twice, the first time with another outcome.
func TestAChangeThatDoesNotGoAloneMayHaveBeenMade(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		g, s := newBatched(t, exchange.Traits{Together: 8})
		exchange.DriverOf(s).Limit(exchange.NewLimiter(1, 0, 0))
		g.alone, g.slow = "busy", "long"
		first := joins(t.Context(), s, in("first"))
		ctx, giveUp := context.WithCancel(t.Context())
		r := in("busy")
		busy, long := joins(ctx, s, r), joins(t.Context(), s, in("long"))
		g.expect(t, "first")
		g.end <- struct{}{}
		errtest.None(t, <-first)
		g.expect(t, "busy", "long")
		g.end <- struct{}{}
		g.expect(t) // the list goes on, and there is no room beside it
		giveUp()
		errtest.Is(t, <-busy, context.Canceled)
		go func() { _ = s.Leave(t.Context(), ticketOf(r), true) }()
		close(g.end)
		errtest.None(t, <-long)
		synctest.Wait()
		if l, is := (<-g.begun)[0].(*exchange.Leave); !is || l.Tombstone == 0 {
			t.Errorf("its ticket is left by %+v", l)
		}
	})
}

// Promise: a list that no caller waits for any more ends, at once or after a while, as the store wants it. A repeated
// Join waits for that.
func TestAListEndsWithItsCallers(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		bubble.Run(t, func(t *testing.T) {
			g, s := newBatched(t, exchange.Traits{Together: 8, Bounded: bounded, Patience: time.Millisecond})
			ctx, giveUp := context.WithCancel(t.Context())
			first := joins(t.Context(), s, in("first"))
			r := in("second")
			all := []<-chan error{joins(ctx, s, r), joins(ctx, s, in("third"))}
			g.expect(t, "first")
			g.end <- struct{}{}
			errtest.None(t, <-first)
			g.expect(t, "second", "third")
			began := time.Now()
			giveUp()
			for _, answer := range all {
				errtest.Is(t, <-answer, context.Canceled)
			}
			r.Retry = true
			again := joins(t.Context(), s, r)
			if time.Sleep(10 * time.Millisecond); !bounded {
				g.expect(t) // it is not beside the first one
			}
			errtest.Is(t, <-g.cut, context.Canceled)
			if took := time.Since(began); (took > time.Second) == bounded {
				t.Errorf("it goes on for %v", took)
			}
			g.expect(t, "second")
			g.end <- struct{}{}
			errtest.None(t, <-again)
		})
	}
}

// Promise: an exchange that is stuck holds others up for no longer than the store's patience, and as long as it takes
// if the backend makes one after the other.
func TestAnExchangeThatIsStuckHoldsUpNoOther(t *testing.T) {
	for _, patience := range []time.Duration{0, 5 * time.Millisecond} {
		bubble.Run(t, func(t *testing.T) {
			g, s := newBatched(t, exchange.Traits{Together: 2, Patience: patience})
			for n := range 6 {
				joins(t.Context(), s, in(fmt.Sprint(n)))
			}
			g.expect(t, "0")
			for _, list := range [][]string{{"1", "2"}, {"3", "4"}, {"5"}} {
				g.expect(t)
				time.Sleep(5*time.Millisecond + 1)
				if patience == 0 {
					list = nil
				}
				g.expect(t, list...)
			}
			close(g.end)
		})
	}
}

// Promise: a change that the store does not answer has failed, and is open.
func TestAChangeWithoutAnAnswerHasFailed(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		g, s := newBatched(t, exchange.Traits{Together: 8})
		g.silent = "silent"
		all := []<-chan error{joins(t.Context(), s, in("silent"))}
		all = append(all, joins(t.Context(), s, in("silent")), joins(t.Context(), s, in("beside")))
		close(g.end)
		for i, answer := range all {
			if err := <-answer; (err == nil) != (i == 2) || driver.IsPermanent(err) {
				t.Errorf("the change %d: %v", i, err)
			}
		}
	})
}
