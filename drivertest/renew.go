package drivertest

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

var _ = rules.Add(rule{Name: "RenewOnlyWhatIsKnown", Says: []string{
	"Renew extends the tickets that the caller knows of, and no others, by one TTL, all in one exchange or in a few, and says of each what became of it.",
	"A ticket of this session that is not in known is not extended, and is reported as Stray",
}}, func(t *trial) {
	a, b := t.mortal(), t.client()
	known := a.lease(a.hold(t.exclusive("known")))
	forgotten := a.lease(a.hold(t.exclusive("forgotten")))
	next := b.behind(t.exclusive("known"))
	heir := b.behind(t.exclusive("forgotten"))
	seen := false
	look := func(answer map[string]driver.Renewed) {
		if r, ok := answer[forgotten.ticket.ID]; ok {
			seen = true
			t.FatalIf(r.State != driver.Stray, "Renew reports a ticket that was not named as %v", r.State)
		}
	}
	// The other runs out while this one is renewed.
	start := a.driver.Now()
	for runsOut := false; !runsOut; {
		known.renewFor(a.TTL/2, look)
		select {
		case <-heir.done:
			runsOut = true
		default:
			t.FatalIf(a.driver.Now().Sub(start) > 100*a.TTL,
				"a ticket that is not named still stands after 100 times its TTL")
		}
	}
	t.FatalIf(!seen, "Renew did not report a ticket that was not named")
	heir.notBefore(forgotten.end(), "which nobody renewed")
	known.renewFor(0, func(answer map[string]driver.Renewed) {
		r, still := answer[forgotten.ticket.ID]
		t.FatalIf(still, "Renew reports a ticket that has run out and was not named: %+v", r)
	})
	next.notBefore(known.end(), "which was renewed")
})

var _ = rules.Add(rule{Name: "RenewOfAStray", Says: []string{
	"once a later call names it, it is extended again (a Join and a Renew can cross).",
}}, func(t *trial) {
	a, b := t.mortal(), t.client()
	held := a.lease(a.hold(t.exclusive("q")))
	next := b.behind(t.exclusive("q"))
	stray, err := a.Renew(t.Ctx, nil)
	if a.inTime(err); err != nil || len(stray) != 1 || stray[0].ID != held.ticket.ID || stray[0].State != driver.Stray {
		t.inTime(a.driver, held.end())
		t.Fatalf("Renew that does not name the only ticket: %+v, %v", stray, err)
	}
	held.renewFor(2*a.TTL, nil)
	next.notBefore(held.end(), "which was renewed")
})

var _ = rules.Add(rule{Name: "RenewSaysWhatBecame", Says: []string{
	"Renew extends the tickets that the caller knows of, and no others, by one TTL, all in one exchange or in a few, and says of each what became of it.",
	"A ticket with a fixed end is not extended and never Stray: it needs nobody to renew it",
	"stands, and is extended", "does not stand any more", "stands, but is not extended any more", "stands, but the caller did not name it",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	stays, left := a.hold(t.exclusive("q")), a.hold(t.exclusive("r"))
	waits := a.wait(t.exclusive("q"))
	if t.fixes() {
		a.hold(t.fixed("needs nobody", 10*limit))
	}
	foreign := b.hold(t.exclusive("s"))
	never := driver.Ticket{ID: newID(), Queue: "q"}
	a.leave(left)
	evicted := a.hold(t.exclusive("evicted"))
	b.ask(evicted, driver.Evict)
	unnamed := a.hold(t.exclusive("unnamed"))
	answer := a.renew(stays, left, waits, never, evicted)
	for _, c := range []struct {
		about string
		tk    driver.Ticket
		want  driver.State
	}{
		{"held", stays, driver.Kept},
		{"waiting", waits, driver.Kept},
		{"that has left", left, driver.Gone},
		{"that never was", never, driver.Gone},
		{"that was evicted", evicted, driver.Evicted},
		{"that was not named", unnamed, driver.Stray},
	} {
		if r, ok := answer[c.tk.ID]; !ok || r.State != c.want || r.Queue != c.tk.Queue {
			t.Fatalf("Renew of a ticket %s: %+v, known %v; the state must be %v", c.about, r, ok, c.want)
		}
	}
	r, ok := answer[foreign.ID]
	t.FatalIf(ok || len(answer) != 6, "Renew reports what it was not asked for: %+v, %+v", r, answer)
})

// The heartbeat comes while a holder leaves, and may be the first to say that the ticket does not stand any more.
var _ = rules.Add(rule{Name: "RenewBesideALeave", Exclusive: true, Says: []string{concurrently}}, func(t *trial) {
	a := t.client()
	for range t.size(200, 20) {
		held := a.hold(t.exclusive("q"))
		a.keeps(held)
		var left atomic.Bool
		renewed := t.Done(func() (err error) {
			for err == nil && !left.Load() {
				_, err = a.Renew(t.Ctx, []driver.Ticket{held})
			}
			return err
		})
		err := a.Leave(t.Ctx, held, true)
		left.Store(true)
		t.okBefore(a.driver, held.Proof.Add(a.TTL), <-renewed, "Renew of a ticket that leaves")
		t.okBefore(a.driver, held.Proof.Add(a.TTL), err, "Leave of a ticket that is renewed")
	}
})

const neverStray = "A ticket with a fixed end is not extended and never Stray: it needs nobody to renew it; but any session that names it is told what became of it."

var _ = rules.Add(rule{Name: "RenewOfFixedTickets", Says: []string{neverStray, proofSays}}, func(t *trial) {
	a, b := t.client(), t.client()
	// Whoever asks later proves nothing for later.
	const inexact = 5 * time.Millisecond // some backends count in milliseconds
	r := t.fixed("proven", 10*limit)
	proven := a.hold(r)
	proof := func(how string, granted driver.Instant, got driver.Instant) {
		t.FatalIf(got > granted.Add(inexact),
			"a ticket with a fixed end, %s: its proof is %v after its grant", how, got.Sub(granted))
	}
	granted := a.driver.Now() // at the latest
	time.Sleep(5 * inexact)
	proof("renewed", granted, a.renew(proven)[proven.ID].Proof)
	proof("joined again", granted, a.hold(again(r)).Proof)
	proof("awaited", granted, a.await(proven).Proof)
	for range 3 { // where one proves what the last one has asked for
		proof("renewed by another session", granted, b.renew(proven)[proven.ID].Proof)
	}

	t.OK(a.Keep(t.Ctx, proven, 20*limit), "Keep")
	kept := a.driver.Now()
	time.Sleep(5 * inexact)
	proof("kept and renewed", kept, a.renew(proven)[proven.ID].Proof)
	for range 3 {
		proof("kept, and renewed by another session", kept, b.renew(proven)[proven.ID].Proof)
	}

	stays, left := a.hold(t.fixed("stays", 10*limit)), a.hold(t.fixed("left", 10*limit))
	ends := a.hold(t.fixed("ends", t.TTL/2))
	next := b.behind(t.exclusive("ends"))
	got := a.renew()
	t.FatalIf(len(got) != 0, "Renew reports tickets with a fixed end that were not named: %+v", got)
	a.says(driver.Kept, stays)
	b.says(driver.Kept, stays)
	a.leave(left)
	a.says(driver.Gone, left)
	b.says(driver.Gone, left)
	a.close()
	b.says(driver.Kept, stays)
	b.ask(stays, driver.Evict)
	b.says(driver.Evicted, stays)

	stop := b.beat(ends, next.Ticket) // in vain
	next.notBefore(ends.Proof.Add(t.TTL/2), "by its Hold")
	stop()
	b.says(driver.Gone, ends)
})

const recentSays = "Proofs are recent while the backend answers: none is older than half of the TTL when the next call is due, if a call is due a third of the TTL after the last one, or as soon as the proof is two fifths of the TTL old, but no sooner than a twelfth of the TTL after the last one."

// A healthy lease has always time left, whatever part of the TTL a proof costs.
var _ = rules.Add(rule{Name: "RecentProofs", Long: true, Says: []string{recentSays}}, func(t *trial) {
	a, front := t.mortal(), t.client()
	ttl := a.TTL
	first := front.hold(t.exclusive("r"))
	waiting := a.leaseOfWaiting(t.exclusive("r"))
	waiting.renewFor(ttl, nil)
	front.leave(first)
	granted, err := a.Await(t.Ctx, waiting.ticket)
	t.okBefore(a.driver, waiting.end(), err, "Await")
	waiting.ticket = granted
	began := a.driver.Now()
	waiting.renewFor(0, nil) // whoever needs more time than a grant leaves renews at once
	t.Allow(0)

	type kept struct {
		*lease
		how          string
		last         driver.Instant // renewal
		slow         bool           // this machine, or the last answer
		counted, old int
		oldest       time.Duration
	}
	b := t.mortal()
	both := []*kept{
		{lease: waiting, how: "after a grant", last: began},
		{lease: b.lease(b.hold(t.exclusive("q"))), how: "after a Join", last: b.opened},
	}
	due := func(k *kept) driver.Instant {
		return max(min(k.last.Add(ttl/3), k.proof.Add(2*ttl/5)), k.last.Add(ttl/12))
	}
	pulse := t.Pulse(func(ctx context.Context) error {
		r := t.exclusive("pulse")
		if err := suite.Err(front.Join(ctx, r)); err != nil {
			return err
		}
		return front.Leave(ctx, driver.Ticket{ID: r.ID, Queue: r.Queue}, true)
	})
	for stop := b.opened.Add(5 * ttl); min(both[0].last, both[1].last) < stop; {
		k := slices.MinFunc(both, func(a, b *kept) int { return cmp.Compare(due(a), due(b)) })
		at := due(k)
		time.Sleep(at.Sub(k.driver.Now()))
		age := at.Sub(k.proof)
		k.last = k.driver.Now()
		k.renewFor(0, nil)
		wasSlow := k.slow
		if k.slow = k.driver.Now().Sub(at) > ttl/20; k.slow || wasSlow {
			continue
		}
		k.counted++
		if k.oldest = max(k.oldest, age); age > ttl/2 {
			k.old++ // what the driver does beside the renewals can be late here, too
		}
	}
	for _, k := range both {
		if k.counted < 5 {
			t.Slow("this machine or the backend was slow")
		}
		if k.old > k.counted/5 {
			if felt := pulse.Longest(); felt > ttl/20 {
				t.Slow("this machine or the backend was slow: an exchange took %v", felt)
			}
			t.Fatalf("%s: at %d of %d renewals the proof was older than half of the TTL, at one %.2f of it", k.how, k.old, k.counted, float64(k.oldest)/float64(ttl))
		}
		t.Logf("%s: %d renewals, the oldest proof was %.2f of the TTL old", k.how, k.counted, float64(k.oldest)/float64(ttl))
	}
})

var _ = rules.Add(rule{Name: "RenewByAnotherSession", Says: []string{
	"A ticket belongs to the session that joined it and stands as long as that session renews it",
}}, func(t *trial) {
	a, b := t.mortal(), t.client()
	held := a.lease(a.hold(t.exclusive("q")))
	next := b.behind(t.exclusive("q"))
	stop := b.beat(held.ticket, next.Ticket) // in vain
	next.notBefore(held.end(), "which its own session did not renew")
	stop()
})

var _ = rules.Add(rule{Name: "RenewInAFewExchanges", Says: []string{
	"all in one exchange or in a few",
}}, func(t *trial) {
	a := t.client()
	var known []driver.Ticket
	n := t.size(500, 100)
	for i := range n {
		known = append(known, a.join(permits(string(rune('a'+i%20)), 1, 5)))
	}
	before := a.driver.Exchanges()
	answer := a.renew(known...)
	t.FatalIf(len(answer) != n, "Renew of %d tickets answers for %d", n, len(answer))
	used := a.driver.Exchanges() - before
	t.FatalIf(used == 0 || used > uint64(2+n/20), "Renew of %d tickets took %d exchanges", n, used)
})

// A stray that gets another end is no stray any more, and no renewal takes that end away.
var _ = rules.Add(rule{Name: "StrayWithAnotherEnd", Says: []string{
	"A ticket with a fixed end is not extended and never Stray: it needs nobody to renew it",
	"An evicted ticket that is held is not renewed any more",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	evicted := a.hold(t.exclusive("evicted"))
	want := map[string]driver.State{evicted.ID: driver.Evicted}
	known := []driver.Ticket{evicted}
	if t.fixes() {
		kept := a.hold(t.exclusive("kept"))
		want[kept.ID] = driver.Kept
		known = append(known, kept)
	}
	strays := a.renew()
	for _, tk := range known {
		if r, ok := strays[tk.ID]; !ok || r.State != driver.Stray {
			t.Fatalf("Renew that does not name the ticket in %q: %+v, told %v; it must be Stray", tk.Queue, r, ok)
		}
	}
	b.ask(evicted, driver.Evict)
	if len(known) > 1 {
		t.OK(a.Keep(t.Ctx, known[1], limit), "Keep of a stray")
	}
	before := t.snapshot(b.driver, "evicted").Members[0]
	for range 3 {
		answer := a.renew(known...)
		for _, tk := range known {
			if r, ok := answer[tk.ID]; !ok || r.State != want[tk.ID] {
				t.Fatalf("Renew of the ticket in %q, which was a stray before: %+v, told %v; the state must be %v", tk.Queue, r, ok, want[tk.ID])
			}
		}
	}
	if after := t.snapshot(b.driver, "evicted").Members[0]; after.Left > before.Left {
		t.Fatalf("an evicted ticket that was a stray had %v left before it was renewed, and %v after", before.Left, after.Left)
	}
	for _, tk := range known[1:] {
		m := t.snapshot(b.driver, tk.Queue).Members[0]
		t.FatalIf(!m.Fixed || m.Left > limit, "a stray that was kept for %v, after renewals: %+v", limit, m)
	}
})
