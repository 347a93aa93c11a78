package primitives

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock"
)

var _ = rules.Add(rule{Name: "Revocation", Says: []string{
	"Revoke asks the holder, who is told at once and keeps its lease until it releases it.",
}}, func(t *trial) {
	a, b := t.pair() // no heartbeat comes in time
	lease := t.acquire(a.Mutex("m"))
	next := t.queued(b, 1, b.Mutex("m"))
	t.OK(b.Admin().Revoke(t.Ctx, "m", lease.ID()), "Revoke")
	wait(t, lease.Revoked(), "the holder is told that it is asked for the lock")
	t.OK(lease.Err(), "a lease that was asked for")
	notYet(t, next, "Revoke has taken the lock away")
	t.passOn(lease, next, "the next holder is served")
	t.Is(b.Admin().Revoke(t.Ctx, "m", lease.ID()), interlock.ErrLost, "Revoke of a lease that is over")
})

var _ = rules.Add(rule{Name: "Eviction", Says: []string{
	"Evict ends the holder's lease and its contexts with ErrEvicted at once; the lock passes on when the holder has released.",
}}, func(t *trial) {
	a, b := t.pair()
	lease := t.acquire(a.Mutex("m", interlock.ReportDeath()))
	ctx, cancel := lease.Bind(t.Ctx)
	defer cancel()
	next := t.queued(b, 1, b.Mutex("m", interlock.ReportDeath()))
	t.OK(b.Admin().Evict(t.Ctx, "m", lease.ID(), false), "Evict")
	wait(t, ctx.Done(), "the context of a holder that is evicted ends")
	t.Is(context.Cause(ctx), interlock.ErrEvicted, "the context of a holder that was evicted")
	t.Is(lease.Err(), interlock.ErrLost, "the lease of a holder that was evicted")
	notYet(t, next, "the lock has passed on while a holder that was evicted is at work")
	t.Is(lease.Release(), interlock.ErrLost, "release of a lease that was evicted")
	got := t.get(next, "the next holder is served when the one that was evicted has released")
	t.FatalIf(!got.Inherited(),
		"the next holder is not told that the one that was evicted may have left its work half done")
	t.release(got)
})

// Exact: a place that its waiter does not know of yet is not told to be lost.
var _ = rules.Add(rule{Name: "EvictedWaiter", Exact: true, Says: []string{
	"A waiter that is evicted loses its place, says so by an event, and waits again at the end.",
}}, func(t *trial) {
	waits, toldOfWaits := told(interlock.EventWaiting)
	events, told := told(interlock.EventRejoined)
	a, b, c := t.client(), t.beating(told, toldOfWaits), t.client()
	holder := t.acquire(a.Mutex("m"))
	first := t.async(b.Mutex("m"))
	id := t.waiting(a, "m", 1)[0].ID
	wait(t, waits, "the event that it waits") // else it has lost no place that it knows of
	second := t.queued(a, 2, c.Mutex("m"))
	t.OK(a.Admin().Evict(t.Ctx, "m", id, false), "Evict of a waiter")
	e := wait(t, events, "the event that a waiter has lost its place")
	t.FatalIf(e.Name != "m", "the event is %+v", e)
	t.Eventually("the waiter that was evicted waits again", func() bool {
		q := t.look(a, "m").Waiters
		return len(q) == 2 && q[0].ID != id && q[1].ID != id
	})
	t.release(holder)
	lease := t.get(second, "who waited behind one that was evicted is served")
	notYet(t, first, "a waiter that was evicted has kept its place")
	t.passOn(lease, first, "a waiter that was evicted is served in the end")
})

var _ = rules.Add(rule{Name: "Force", Says: []string{
	"Evict with force passes the lock on at once, with a larger token, and the old holder is told so at once, with ErrEvicted.",
}}, func(t *trial) {
	a, b := t.pair()
	for range 2 {
		lease := t.acquire(a.Mutex("m"))
		next := t.queued(b, 1, b.Mutex("m"))
		t.evict(b, lease, true)
		got := t.get(next, "the next holder is served at once")
		t.FatalIf(got.Token() <= lease.Token(),
			"the token is %d after %d, which a holder that knows nothing still has", got.Token(), lease.Token())
		wait(t, lease.Done(), "the old holder hears that its lease was taken away")
		t.Is(lease.Err(), interlock.ErrEvicted, "a lease that was taken away")
		t.Is(lease.Release(), interlock.ErrLost, "release of a lease that was taken away")
		t.release(got)
	}
})

var _ = rules.Add(rule{Name: "Overrun", Says: []string{
	"Work that goes on after its lease was lost is counted, told by events until it ends, and shown to others as long as it goes on and its client reaches the backend.",
}}, func(t *trial) {
	events, told := told(interlock.EventOverrun)
	a, b := t.beating(interlock.Owner("owner a"), told), t.client()
	w := t.work(a.Mutex("jobs/m", interlock.Note("why")), t.fails(false))
	lease := w.lease
	t.evict(b, lease, false)
	first := wait(t, events, "the event that work goes on after the loss")
	t.FatalIf(first.Name != "jobs/m" || first.Token != lease.Token() || first.Took < a.TTL()/10 || !errors.Is(first.Err, interlock.ErrLost) || a.Overruns() != 1,
		"%d leases overrun; the event is %+v", a.Overruns(), first)
	shown := func(want int, what string) {
		var all []interlock.Queue
		t.Eventually(what, func() bool {
			q, err := b.Admin().Queue(t.Ctx, "jobs/m")
			t.OK(err, "Queue")
			all = []interlock.Queue{q}
			for q, err := range b.Admin().Queues(t.Ctx, "jobs/") {
				if t.variant == plain {
					t.OK(err, "Queues")
				}
				all = append(all, q)
			}
			n := 0
			for _, q := range all {
				for _, o := range q.Overruns {
					if q.Name == "jobs/m" && q.Kind == "mutex" && strings.HasPrefix(lease.ID(), o.ID) && o.Owner == "owner a" && o.Note == "why" && o.Token == lease.Token() && !o.Since.IsZero() {
						n++
					}
				}
			}
			return n == want
		}, func() string { return fmt.Sprintf("%+v", all) })
	}
	shown(2, "Queue and Queues show work that goes on after the loss")
	w.end()
	t.Is(wait(t, w.done, "Do returns"), interlock.ErrLost, "Do whose lease was lost")
	last := wait(t, events, "the event that the work has ended")
	for last.Err != nil { // one of a TTL that has passed
		last = wait(t, events, "the event that the work has ended")
	}
	t.FatalIf(last.Took < first.Took || last.Token != lease.Token() || a.Overruns() != 0,
		"%d leases overrun; the last event is %+v", a.Overruns(), last)
	shown(0, "work that has ended is shown no more")
})
