package primitives

import (
	"strings"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

var _ = rules.Add(rule{Name: "KilledHolder", Processes: true, Says: []string{
	"When the process of a holder is killed, the next one holds within about a TTL, and is told that the work may be half done.",
}}, func(t *trial) {
	b := t.beating()
	m := t.member(t.TTL)
	g := m.acquire(Want{Kind: "mutex", Name: "m", ReportDeath: true})
	next := t.async(b.Mutex("m", interlock.ReportDeath()))
	t.behind(next, b, "m")
	m.Kill()
	killed := time.Now()
	lease := t.get(next, "the next holder is served when the one before it was killed")
	if took := time.Since(killed); took > 2*t.TTL+limit/10 { // so slow is no backend
		t.Fatalf("the next holder is served %v after the one before it, with a TTL of %v, was killed", took, t.TTL)
	}
	t.FatalIf(!lease.Inherited(), "the next holder does not inherit from a process that was killed")
	t.FatalIf(lease.Token() <= g.Token, "the token is %d after %d", lease.Token(), g.Token)
	t.release(lease)
})

var _ = rules.Add(rule{Name: "KilledWaiter", Processes: true, Says: []string{
	"A waiter whose process is killed keeps nobody waiting for longer than about a TTL.",
}}, func(t *trial) {
	a, b := t.client(), t.beating()
	holder := t.acquire(a.Mutex("m"))
	m := t.member(t.TTL)
	killed := t.Done(func() error { return m.call("Acquire", Want{Kind: "mutex", Name: "m"}, &Grant{}) })
	t.waiting(a, "m", 1)
	next := t.queued(a, 2, b.Mutex("m"))
	m.Kill()
	t.FatalIf(wait(t, killed, "the call of a process that was killed") == nil,
		"a waiter has acquired a lock that is held")
	t.passOn(holder, next, "who waits behind a process that was killed is served")
})

var _ = rules.Add(rule{Name: "StoppedHolder", Processes: true, Says: []string{
	"A holder whose process is stopped for longer than its TTL and continued does not work on once another holds: its lease and context have ended.",
}}, func(t *trial) {
	b := t.beating()
	m := t.member(t.TTL)
	g := m.acquire(Want{Kind: "mutex", Name: "m"})
	next := t.async(b.Mutex("m"))
	t.behind(next, b, "m")
	resume := m.stop()
	lease := t.get(next, "the next holder is served when the one before it is stopped")
	granted := suite.Stamp()
	resume()
	var f Fate
	t.OK(m.call("Over", g.ID, &f), "the holder that was stopped learns of its loss")
	t.FatalIf(f.Last >= granted,
		"the holder that was stopped worked %v after another held", time.Duration(f.Last-granted))
	t.FatalIf(!f.Lost, "the holder that was stopped is not told that it lost its lease: %s", f.Text)
	t.FatalIf(lease.Token() <= g.Token, "the token is %d after %d", lease.Token(), g.Token)
	t.OK(lease.Err(), "the lease of the next holder, which is healthy")
	t.release(lease)
})

var _ = rules.Add(rule{Name: "AdoptionFromAKilledProcess", Processes: true, Says: []string{
	"A lease of ExpiresAfter outlives the process that acquired it: another one adopts it by its ID, extends and releases it.",
}}, func(t *trial) {
	a, b := t.pair()
	m := t.member(t.TTL)
	g := m.acquire(Want{Kind: "mutex", Name: "m", ExpiresAfter: 10 * limit})
	m.Kill()
	time.Sleep(t.TTL + t.TTL/4)
	t.busy(b.Mutex("m"), "a lease of ExpiresAfter outlives the process that acquired it")
	lease, err := a.Adopt(t.Ctx, "m", g.ID)
	t.OK(err, "Adopt of a lease whose process was killed")
	t.FatalIf(lease.Token() != g.Token, "the adopted lease has the token %d, not %d", lease.Token(), g.Token)
	t.OK(lease.Extend(t.Ctx, 5*limit), "Extend of a lease whose process was killed")
	next := t.queued(a, 1, b.Mutex("m"))
	t.passOn(lease, next, "the next holder is served")
})

var _ = rules.Add(rule{Name: "KilledLeader", Processes: true, Says: []string{
	"A leader whose process is killed is followed by the next candidate, and observers see it.",
}}, func(t *trial) {
	a, b := t.beating(), t.client()
	m := t.member(t.TTL)
	m.acquire(Want{Kind: "candidate", Name: "e"})
	seen, end := t.observe(b.Election("e"))
	seen("a member")
	next := t.begin(func() (*interlock.Lease, error) { return a.Election("e").Campaign(t.Ctx, "the next") })
	t.behind(next, a, "e")
	m.Kill()
	lease := t.get(next, "the next candidate leads when the leader was killed")
	seen("the next")
	t.release(lease)
	end()
})

var _ = rules.Add(rule{Name: "KilledMember", Processes: true, Says: []string{
	"A member of a double barrier whose process is killed counts as having left: nobody waits for it for ever.",
}}, func(t *trial) {
	a := t.beating()
	m := t.member(t.TTL)
	entered := t.Done(func() error { return m.call("Acquire", Want{Kind: "entrance", Name: "d"}, &Grant{}) })
	lease := t.get(t.begin(func() (*interlock.Lease, error) { return a.DoubleBarrier("d", 2).Enter(t.Ctx) }), "both enter")
	if err := wait(t, entered, "both enter"); err != nil && strings.Contains(err.Error(), interlock.ErrLost.Error()) {
		t.Slow("a member has lost its place before it was killed")
	} else {
		t.OK(err, "Enter in another process")
	}
	m.Kill()
	left := t.Done(func() error { return a.DoubleBarrier("d", 2).Leave(t.Ctx, lease) })
	t.OK(wait(t, left, "who is left leaves when the other one was killed"), "Leave")
})
