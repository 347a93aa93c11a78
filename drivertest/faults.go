package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

var errLost = errors.New("drivertest: the reply was lost")

// A fault strikes one call: it makes the call itself, or not, and decides what
// the caller sees.
type fault func(ctx context.Context, call func(context.Context) error) error

// faults counts the calls of its drivers and strikes the k-th.
type faults struct {
	mu    sync.Mutex
	calls int
	k     int
	fault fault
	hit   string // the method that was struck
}

func (f *faults) hook(ctx context.Context, method string, call func(context.Context) error) error {
	f.mu.Lock()
	f.calls++
	strike := f.calls == f.k
	if strike {
		f.hit = method
	}
	f.mu.Unlock()
	if strike {
		return f.fault(ctx, call)
	}
	return call(ctx)
}

// lostReply has the effect and loses the reply.
func lostReply(ctx context.Context, call func(context.Context) error) error {
	call(ctx)
	return errLost
}

// lostAnswer has a context end while the answer is on its way.
func lostAnswer(late func() (resume func())) fault {
	return func(ctx context.Context, call func(context.Context) error) error {
		const happened = 50 * time.Millisecond
		ctx, cancel := context.WithTimeout(ctx, happened)
		defer cancel()
		resume := sync.OnceFunc(late())
		stop := time.AfterFunc(2*happened, resume) // for a call that nothing breaks off
		defer stop.Stop()
		call(ctx)
		resume()
		return errLost
	}
}

// lostCall fails before the effect.
func lostCall(context.Context, func(context.Context) error) error { return errLost }

// cancelled makes the call with a context that has ended before.
func cancelled(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return call(ctx)
}

// cancelledAtLook makes the call with a context that ends when it is looked at
// for the n-th time.
func cancelledAtLook(n int) fault {
	return func(ctx context.Context, call func(context.Context) error) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return call(&shyContext{Context: ctx, cancel: cancel, left: n})
	}
}

// cancelledDuring makes the call with a context that ends at any time.
func cancelledDuring(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := time.AfterFunc(rand.N(time.Millisecond), cancel)
	defer stop.Stop()
	return call(ctx)
}

// shyContext ends when it is looked at too often.
type shyContext struct {
	context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	left   int
}

func (c *shyContext) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		c.cancel()
	}
}

func (c *shyContext) Err() error {
	c.look()
	return c.Context.Err()
}

func (c *shyContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

const (
	leavesOpen  = "An error that is none of the package's sentinels leaves open whether the call took effect; the caller repeats it with the same identity."
	wrapsTheEnd = "A method whose context has ended returns an error that wraps the context's."
)

// play runs each part of the scenario with a fault at each of its calls in turn, and
// repeats every call that was struck, as callers do. The parts have nothing in common, so
// that a fault in one of them needs no more than that part to be seen.
func play(t *trial, about string, strike fault) {
	drivers := [3]driver.Driver{t.driver(), t.driver(), t.driver()}
	t.disturbs = true
	for _, part := range []struct {
		what string
		run  func(t *trial, name string, a, b, plain driver.Driver)
	}{{"line", exclusiveTickets}, {"share", sharedTickets}, {"value", values}} {
		for k := 1; ; k++ {
			t.Allow(0)
			f := &faults{k: k, fault: strike}
			name := fmt.Sprintf("%s/%s/%d", about, part.what, k)
			t.About = func() string { return fmt.Sprintf("%s, struck at %s: ", name, f.hit) }
			part.run(t, name, suite.Hooked(drivers[0], f.hook), suite.Hooked(drivers[1], f.hook), drivers[2])
			if f.calls < k {
				t.Logf("%s, %s: struck each of %d calls", about, part.what, f.calls)
				break
			}
		}
	}
}

// repeat makes a call until it is known what came of it, which must be no error.
func (t *trial) repeat(call func() error, worked ...error) {
	t.OK(t.call(call, worked...), "a call that is repeated")
}

// The parts of the scenario together use every method, by the drivers a and b. After every step plain shows what must
// be true whether or not a call was struck.

// exclusiveTickets is the part of a line of them.
func exclusiveTickets(t *trial, name string, da, db, plain driver.Driver) {
	ctx := t.Ctx
	a, b := t.session(da, 10*limit), t.session(db, 10*limit)
	queue := name + "/q"

	first := a.hold(t.exclusive(queue))
	r2 := t.exclusive(queue)
	second, third := b.wait(r2), a.wait(t.exclusive(queue))
	t.stands(plain, queue, []driver.Ticket{first}, []driver.Ticket{second, third})

	busy := nowait(t.exclusive(queue))
	t.Is(t.call(func() error {
		_, err := b.Join(ctx, busy)
		busy.Retry = true
		return err
	}), driver.ErrBusy, "Join with NoWait")
	t.stands(plain, queue, []driver.Ticket{first}, []driver.Ticket{second, third})

	// Whoever has waited does so no longer.
	impatient := t.exclusive(queue)
	_, err := b.Join(ctx, impatient)
	t.OK(suite.Unless(suite.Unless(err, errLost), context.Canceled), "Join")
	gone := t.call(func() error { _, err = b.Join(ctx, again(nowait(impatient))); return err }, driver.ErrGone)
	if gone != nil || !errors.Is(err, driver.ErrGone) {
		t.Is(err, driver.ErrBusy, "Join with NoWait of who waits")
	}
	t.stands(plain, queue, []driver.Ticket{first}, []driver.Ticket{second, third})

	a.keeps(first, third)
	b.keeps(second)
	t.repeat(func() error { return db.Raise(ctx, queue, first.Token+100) })
	a.leave(first)
	got := b.await(second)
	t.FatalIf(got.Token <= first.Token+100, "the token is %d after %d and a Raise by 100", got.Token, first.Token)
	found := b.hold(again(r2))
	t.FatalIf(found.Token != got.Token, "Join found the token %d, not %d", found.Token, got.Token)
	t.stands(plain, queue, []driver.Ticket{second}, []driver.Ticket{third})
	t.repeat(func() error { return da.Ask(ctx, queue, second.ID, driver.Revoke) })
	a.leave(third)
	t.stands(plain, queue, []driver.Ticket{second}, nil)
	if t.fixes() {
		t.repeat(func() error { return b.Keep(ctx, second, 10*limit) })
		t.repeat(func() error { return a.Keep(ctx, second, 9*limit) })
	}
	t.repeat(func() error { return da.Ask(ctx, queue, second.ID, driver.Force) }, driver.ErrGone)
	t.stands(plain, queue, nil, nil)

	a.hold(t.exclusive(queue))
	heir := b.wait(t.exclusive(queue))
	a.close()
	t.FatalIf(!b.await(heir).Inherited, "the next holder does not inherit from a session that was closed")
	t.stands(plain, queue, []driver.Ticket{heir}, nil)
	b.close()
	t.stands(plain, queue, nil, nil)
}

// sharedTickets is the part of a reader and a writer.
func sharedTickets(t *trial, name string, da, db, plain driver.Driver) {
	a, b := t.session(da, 10*limit), t.session(db, 10*limit)
	rw := name + "/rw"
	w, r := a.hold(writer(rw)), b.wait(reader(rw))
	t.repeat(func() error { return a.Shrink(t.Ctx, w, 1) })
	b.await(r)
	t.stands(plain, rw, []driver.Ticket{w, r}, nil)
	t.repeat(func() error { return a.Leave(t.Ctx, w, false) }, driver.ErrGone)
	t.stands(plain, rw, []driver.Ticket{r}, nil)
	t.stands(da, rw, []driver.Ticket{r}, nil)
	a.close()
	b.close()
	t.stands(plain, rw, nil, nil)
}

// values is the part of a cell.
func values(t *trial, name string, da, db, plain driver.Driver) {
	cell := name + "/c"
	one := t.swap(da, set(cell, 0, "one"))
	two := t.swap(db, set(cell, one.Version, "two"))
	gone := t.swap(da, remove(cell, two.Version))
	three := t.swap(db, set(cell, gone.Version, "three"))
	t.holds(da, cell, three)
	var c driver.Cell
	t.repeat(func() (err error) { c, err = da.Watch(t.Ctx, cell, one.Version); return err })
	t.FatalIf(c.Version != three.Version || string(c.Value) != "three", "Watch returned %s", show(c))
	t.holds(plain, cell, three)
}

var _ = rules.Add(rule{Name: "LostReplies", Exclusive: true, Says: []string{leavesOpen}},
	func(t *trial) { play(t, "reply lost", lostReply) })

// The drivers themselves get no answer.
var _ = rules.Add(rule{Name: "LostAnswers", Hook: "Late", Says: []string{leavesOpen, wrapsTheEnd}}, func(t *trial) {
	play(t, "answer lost", lostAnswer(t.world.Late))
})

var _ = rules.Add(rule{Name: "LostCalls", Says: []string{leavesOpen}},
	func(t *trial) { play(t, "call lost", lostCall) })

// Some middle boxes, and the pools behind them, send a request again whose reply they have not seen. The
// rule finds the driver of package exchange itself; another one is asked for nothing twice by the network.
var _ = rules.Add(rule{Name: "Repeater", Says: []string{
	"An exchange that the network brings twice takes effect once.",
}}, func(t *trial) {
	a, b, plain := t.session(t.repeating(), 10*limit), t.session(t.repeating(), 10*limit), t.driver()
	t.disturbs = true
	// A ticket that stood when Leave was called is none that was lost, although the second copy finds none.
	leave := func(c *client, tk driver.Ticket) {
		t.OK(t.call(func() error { return c.Leave(t.Ctx, tk, true) }), "Leave")
	}
	var last uint64
	cell := driver.Cell{}
	for range 3 {
		held, next := a.hold(t.exclusive("q")), b.wait(t.exclusive("q"))
		busy := nowait(t.exclusive("q"))
		t.Is(t.call(func() error {
			_, err := a.Join(t.Ctx, busy)
			busy.Retry = true
			return err
		}), driver.ErrBusy, "Join with NoWait of what is held")
		t.stands(plain, "q", []driver.Ticket{held}, []driver.Ticket{next})
		b.ask(held, driver.Revoke)
		a.keeps(held)
		b.keeps(next)
		leave(a, held)
		got := b.await(next)
		t.FatalIf(held.Token <= last || got.Token <= held.Token, "the tokens %d, %d and %d", last, held.Token, got.Token)
		last = got.Token
		leave(b, got)
		t.stands(plain, "q", nil, nil)
		cell = t.swap(a.driver, set("c", cell.Version, "v"))
	}
	w, r := a.hold(writer("rw")), b.wait(reader("rw"))
	a.shrink(w, 1)
	b.await(r)
	t.OK(suite.Unless(a.Close(t.Ctx), driver.ErrSession), "Close")
	t.stands(plain, "rw", []driver.Ticket{r}, nil)
	leave(b, r)
	t.stands(plain, "rw", nil, nil)
})

// repeating opens a driver that makes each exchange twice.
func (t *trial) repeating() driver.Driver {
	d := t.driver()
	for inner := d; ; {
		if r, ok := inner.(interface{ Repeat() }); ok {
			r.Repeat()
			return d
		}
		v := reflect.Indirect(reflect.ValueOf(inner))
		if v.Kind() == reflect.Struct {
			v = v.FieldByName("Driver") // of one that wraps it
		}
		var ok bool
		if v.IsValid() && v.CanInterface() {
			inner, ok = v.Interface().(driver.Driver)
		}
		t.FatalIf(!ok, "%T is no driver of package exchange; list Repeater as unsupported, with the reason", d)
	}
}
