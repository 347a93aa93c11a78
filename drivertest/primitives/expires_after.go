package primitives

import (
	"errors"
	"strings"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

var _ = rules.Add(rule{Name: "ExpiresAfter", Says: []string{
	"A lease of ExpiresAfter ends at its time, of its own accord and before the next holder's begins, and outlives its client.",
}}, func(t *trial) {
	a, b := t.client(), t.beating()
	began := time.Now()
	lease := t.acquire(a.Mutex("m", interlock.ExpiresAfter(t.TTL)))
	next := t.get(t.async(b.Mutex("m")), "the next holder is served when a lease of ExpiresAfter has ended")
	t.FatalIf(lease.Err() == nil, "the next holder is served while a lease of ExpiresAfter has %v left", lease.Remaining())
	took := time.Since(began)
	t.FatalIf(took < t.TTL/2, "a lease of %v has ended after %v", t.TTL, took)
	t.Is(lease.Release(), interlock.ErrLost, "release of a lease of ExpiresAfter that has ended")
	t.release(next)

	gone := t.client()
	lease = t.acquire(gone.Mutex("m", interlock.ExpiresAfter(10*limit)))
	t.OK(gone.Close(), "Close")
	t.Is(lease.Err(), interlock.ErrClosed, "a lease of ExpiresAfter, after Close")
	t.busy(b.Mutex("m"), "a lease of ExpiresAfter outlives its client")
	adopted, err := b.Adopt(t.Ctx, "m", lease.ID())
	t.OK(err, "Adopt")
	t.release(adopted)
	t.release(t.acquire(b.Mutex("m")))
})

var _ = rules.Add(rule{Name: "Extension", Says: []string{
	"Extend makes a lease of ExpiresAfter end at another time from now, later or sooner.",
}}, func(t *trial) {
	a, b := t.client(), t.beating() // an end that has been moved is noticed with the next heartbeat at the latest
	short := 2 * t.TTL
	lease := t.acquire(a.Mutex("later", interlock.ExpiresAfter(short)))
	if err := lease.Extend(t.Ctx, 10*limit); errors.Is(err, interlock.ErrLost) {
		t.Slow("a lease of %v was not extended in time", short)
	} else {
		t.OK(err, "Extend")
	}
	sooner := t.acquire(a.Mutex("sooner", interlock.ExpiresAfter(10*limit)))
	next := t.queued(b, 1, b.Mutex("sooner"))
	t.OK(sooner.Extend(t.Ctx, t.TTL), "Extend to an earlier end")
	t.release(t.get(next, "the next holder is served at the earlier end"))
	t.Is(sooner.Release(), interlock.ErrLost, "release after the earlier end")

	time.Sleep(short / 2) // since the first grant it is more than that lease had at first
	t.OK(lease.Err(), "a lease that was extended, after its first end")
	t.busy(b.Mutex("later"), "its lease was extended")
	t.release(lease)

	renewed := t.acquire(a.Mutex("m"))
	t.Is(renewed.Extend(t.Ctx, time.Hour), interlock.ErrInvalid, "Extend of a lease without ExpiresAfter")
	t.release(renewed)
})

var _ = rules.Add(rule{Name: "Adoption", Says: []string{
	"Another client adopts a lease of ExpiresAfter by its ID, with the same token: it extends and releases it, and then the first one's lease is lost.",
}}, func(t *trial) {
	a, b := t.pair()
	lease := t.acquire(a.Mutex("m", interlock.ExpiresAfter(10*limit)))
	adopted, err := b.Adopt(t.Ctx, "m", lease.ID())
	t.OK(err, "Adopt")
	t.FatalIf(adopted.BackendToken() != lease.BackendToken(),
		"the adopted lease has the token %d, not %d", adopted.BackendToken(), lease.BackendToken())
	t.OK(adopted.Extend(t.Ctx, 5*limit), "Extend of an adopted lease")
	next := t.queued(b, 1, b.Mutex("m"))
	t.release(adopted)
	got := t.get(next, "the next holder is served when an adopted lease is released")
	t.Is(lease.Release(), interlock.ErrLost, "release of a lease that another client has released")
	t.Is(suite.Err(b.Adopt(t.Ctx, "m", lease.ID())), interlock.ErrLost, "Adopt of a lease that has ended")
	t.Is(suite.Err(a.Adopt(t.Ctx, "m", got.ID())), interlock.ErrInvalid, "Adopt of a lease without ExpiresAfter")
	t.release(got)
})

var _ = rules.Add(rule{Name: "AtLeast", Says: []string{
	"AtLeast keeps others out until its time after the grant, even if the lease is released at once.",
}}, func(t *trial) {
	a, b := t.client(), t.beating()
	before := time.Now()
	lease := t.acquire(a.Mutex("m", interlock.AtLeast(t.TTL)))
	next := t.async(b.Mutex("m"))
	t.passOn(lease, next, "the next holder is served when the time of AtLeast is over")
	if took := time.Since(before); took < t.TTL*95/100 { // clocks run at different rates
		t.Fatalf("the next holder is served %v after a grant with AtLeast(%v)", took, t.TTL)
	}
	lease = t.acquire(a.Mutex("m", interlock.AtLeast(time.Millisecond)))
	time.Sleep(2 * time.Millisecond)
	t.release(lease)
	t.release(t.acquire(b.Mutex("m")))
})

var _ = rules.Add(rule{Name: "AtMost", Says: []string{
	"AtMost ends a lease at its time although it is renewed, and the next holder is served when it has been released.",
}}, func(t *trial) {
	a, b := t.client(), t.beating()
	bound := 2 * t.TTL
	before := time.Now()
	lease := t.acquire(a.Mutex("m", interlock.AtMost(bound)))
	ctx, end := lease.Bind(t.Ctx)
	defer end()
	next := t.queued(b, 1, b.Mutex("m"))
	wait(t, ctx.Done(), "the context of a holder ends at the time of AtMost")
	took := time.Since(before)
	if !strings.Contains(lease.Err().Error(), "AtMost") {
		t.Slow("a lease of AtMost(%v) was lost after %v: %v", bound, took, lease.Err())
	}
	if took < bound*95/100 { // clocks run at different rates
		t.Fatalf("a lease of AtMost(%v) has ended after %v", bound, took)
	}
	t.behind(next, b, "m")
	t.Is(lease.Release(), interlock.ErrLost, "release of a lease that AtMost has ended")
	t.release(t.get(next, "the next holder is served when a lease that AtMost has ended is released"))
})
