// Package worker does the work of a run: goroutines that use what clients offer, write down what they did, and can be
// killed or stopped at any instruction. The same work runs in processes on real servers, and in simulated time.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/lab/history"
)

// Resource is what locks protect. It serves all workers, and is disturbed by no fault.
type Resource interface{ Do(Ask, *Answer) error }

// Env is what one goroutine works with.
type Env struct {
	Client *interlock.Client
	Other  *interlock.Client // of another backend; nil: there is none
	DB     *Effects          // nil: there is none
	Resource
	*history.Log
	*rand.Rand

	TTL    time.Duration
	Epoch  time.Duration
	Think  time.Duration // before each operation, at most
	Long   int           // one of so many grants is held for about a TTL; 0: 300
	Worker int
	G      int
	Now    func() int64
	Over   func() bool  // no new operation begins
	Mixes  bool         // inspection may show a waiter as held
	Dead   *atomic.Bool // a killed client writes nothing more; nil: it is a process

	n       int
	told    int64
	Stopped context.Context // ends when the run is over: what still waits then gives up
}

// A Workload is one kind of work. Step does it once.
type Workload struct {
	Name  string
	About string
	Step  func(e *Env)
	Rich  bool // it needs values, latches, barriers or semaphores
}

// event fills in who writes, and when.
func (e *Env) event(ev history.Event) {
	ev.Worker, ev.G, ev.N = e.Worker, e.G, cmp.Or(ev.N, e.n)
	if ev.T == 0 {
		ev.T = e.Now()
	}
	e.Write(ev)
}

// Write writes to the log, while the process lives.
func (e *Env) Write(ev history.Event) {
	if e.Dead == nil || !e.Dead.Load() {
		e.Log.Write(ev)
	}
}

// name is one of the objects of a kind of work: one that all want for the whole run, or one of a short time.
func (e *Env) name(work string) string {
	if e.IntN(3) == 0 {
		return work + "/all"
	}
	return fmt.Sprintf("%s/%d", work, e.Now()/int64(e.Epoch))
}

// progress tells the lab, at most every few milliseconds.
func (e *Env) progress() {
	if now := e.Now(); now-e.told > int64(5*time.Millisecond) {
		e.told = now
		_ = e.Do(Ask{}, &Answer{})
	}
}

// wait is the context of one call: some give up early.
func (e *Env) wait() (context.Context, context.CancelFunc) {
	if e.IntN(8) == 0 {
		return context.WithTimeout(e.Stopped, time.Duration(e.Int64N(int64(e.TTL)/20)))
	}
	return context.WithCancel(e.Stopped)
}

// A grant is a lease whose history is written down.
type grant struct {
	*interlock.Lease
	e    *Env
	n    int
	name string
	lost atomic.Bool
}

// acquire acquires. Without a grant it was not to be had.
func (e *Env) acquire(l *interlock.Lock, name string, units, capacity int64) *grant {
	ctx, cancel := e.wait()
	defer cancel()
	e.n++
	e.event(history.Event{Kind: history.Invoke, Op: "acquire", Object: name, Units: units, Cap: capacity})
	acquire := l.Acquire
	if e.IntN(6) == 0 {
		acquire = l.TryAcquire
	}
	lease, err := acquire(ctx)
	return e.granted(lease, err, name, units, capacity)
}

// use acquires, works and releases.
func (e *Env) use(l *interlock.Lock, name string, units, capacity int64) {
	if g := e.acquire(l, name, units, capacity); g != nil {
		g.work()
		g.end()
	}
}

// granted writes down what an acquire has returned.
func (e *Env) granted(lease *interlock.Lease, err error, name string, units, capacity int64) *grant {
	now := e.Now()
	if err == nil && lease.Err() != nil {
		_ = lease.Release()
		err = errEnded
	}
	if err != nil {
		e.event(history.Event{T: now, Kind: history.Failed, Op: "acquire", Object: name, Err: short(err)})
		e.note(name, err)
		return nil
	}
	e.event(history.Event{
		T: now, Kind: history.OK, Op: "acquire", Object: name, Units: units, Cap: capacity,
		Token: lease.Token(), ID: lease.ID(),
	})
	e.progress()
	return &grant{Lease: lease, e: e, n: e.n, name: name}
}

// event writes an event of the grant, also if the goroutine has begun another operation since.
func (g *grant) event(ev history.Event) {
	ev.N, ev.Object = g.n, g.name
	g.e.event(ev)
}

// witness writes down that the lease held at a time, or that it is lost.
func (g *grant) witness() bool {
	now := g.e.Now()
	if err := g.Err(); err != nil {
		if errors.Is(err, interlock.ErrLost) && !g.lost.Swap(true) {
			g.event(history.Event{Kind: history.Lost, Err: short(err)})
		}
		return false
	}
	g.event(history.Event{T: now, Kind: history.Held})
	return true
}

// hold holds for a time, or until the lease is lost.
func (g *grant) hold(d time.Duration) {
	look := g.e.TTL / 80
	end := g.e.Now() + int64(d)
	for left := d; left > 0; left = time.Duration(end - g.e.Now()) {
		select {
		case <-g.Done():
			g.witness()
			return
		case <-time.After(min(left, look)):
			if left > look && !g.witness() {
				return
			}
		}
	}
}

// work is a hold of a random time: short, and now and then longer than a TTL.
func (g *grant) work() {
	switch e := g.e; {
	case e.IntN(cmp.Or(e.Long, 300)) == 0 && !e.Over():
		g.hold(e.TTL/2 + time.Duration(e.Int64N(3*int64(e.TTL)/2)))
	case e.IntN(3) == 0:
		g.hold(time.Duration(e.Int64N(int64(4 * time.Millisecond))))
	}
}

// change is a call that gives a part of the units back.
func (g *grant) change(units int64, call func(context.Context) error) {
	now := g.e.Now()
	alive := g.Err() == nil
	g.event(history.Event{T: now, Kind: history.Change, Units: units, Alive: alive})
	ctx, cancel := context.WithTimeout(g.e.Stopped, 2*g.e.TTL)
	defer cancel()
	g.event(history.Event{Kind: history.Changed, Err: short(call(ctx))})
}

// end releases.
func (g *grant) end() {
	g.releases()
	g.event(history.Event{Kind: history.Ended, Err: short(g.Release())})
}

// releases writes down that the release begins.
func (g *grant) releases() {
	now := g.e.Now()
	alive := g.Err() == nil
	g.event(history.Event{T: now, Kind: history.Release, Alive: alive})
	if !alive {
		g.witness()
	}
}

// call is an operation without a grant: f returns what its OK event says. An error that says nothing of the effect is
// Unknown if the call may change something.
func (e *Env) call(ev history.Event, changes bool, f func(context.Context) (history.Event, error)) bool {
	e.n++
	ev.Kind, ev.T = history.Invoke, 0
	e.event(ev)
	ctx, cancel := e.wait()
	defer cancel()
	out, err := f(ctx)
	out.Op, out.Object, out.Cap, out.Err, out.Kind = ev.Op, ev.Object, ev.Cap, short(err), history.OK
	switch {
	case err == nil:
	case !changes || is(err, interlock.ErrConflict, interlock.ErrInvalid, errNothing):
		out.Kind = history.Failed
	default:
		out.Kind = history.Unknown
	}
	e.event(out)
	if err == nil {
		e.progress()
	}
	e.note(ev.Object, err)
	return err == nil
}

var errNothing, errEnded = errors.New("nothing was changed"), errors.New("it had ended before it could be used")

// note writes down an error that neither faults nor what others do explain.
func (e *Env) note(object string, err error) {
	if err != nil && !is(err, interlock.ErrBusy, interlock.ErrLost, interlock.ErrUnavailable, interlock.ErrConflict,
		interlock.ErrClosed, interlock.ErrMismatch, context.Canceled, context.DeadlineExceeded, errNothing, errEnded) {
		e.event(history.Event{Kind: history.Unexpected, Object: object, Err: err.Error()})
	}
}

func is(err error, any ...error) bool {
	return slices.ContainsFunc(any, func(target error) bool { return errors.Is(err, target) })
}

func short(err error) string {
	if err == nil {
		return ""
	}
	text := []rune(err.Error())
	return string(text[:min(len(text), 160)])
}

// Work does one workload after the other until the run is over.
func (e *Env) Work(all []Workload) {
	for !e.Over() {
		if e.Think > 0 {
			time.Sleep(time.Duration(e.Int64N(int64(e.Think))))
		}
		all[e.IntN(len(all))].Step(e)
	}
}
