package zklock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/zktest"
)

// A party is a client of a server behind a proxy of its own, with a session. What it does must succeed.
type party struct {
	t      *testing.T
	server *zktest.Server
	raw    *zk.Conn
	via    *zktest.Proxy
	d      driver.Driver
	*driver.Opened
}

// alone is the first client of a server. The test runs beside others.
func alone(t *testing.T) *party {
	t.Helper()
	t.Parallel()
	s := lent(t)
	return (&party{t: t, server: s, raw: connected(t, s.Addr)}).next()
}

// next is another client of the server, which knows nothing of a queue yet.
func (p *party) next() *party {
	p.t.Helper()
	via := zktest.NewProxy(p.t, p.server.Addr)
	d := opened(p.t, via.Addr)
	return &party{p.t, p.server, p.raw, via, d, session(p.t, d, 20*time.Second)}
}

func (p *party) holds(r driver.Request) driver.Ticket {
	p.t.Helper()
	return holds(p.t, p.Opened, r)
}

// waits is a join that must not be served at once.
func (p *party) waits(r driver.Request) driver.Ticket {
	p.t.Helper()
	got := join(p.t, p.Opened, r)
	if got.Held {
		p.t.Fatalf("held: %+v", got)
	}
	return got
}

// vanishes has a queue's empty node removed, as the server does, which may have been faster.
func (p *party) vanishes(path string) {
	p.t.Helper()
	if err := p.raw.Delete(path, -1); !errors.Is(err, zk.ErrNoNode) {
		noError(p.t, err)
	}
}

// stillWaits asks the server.
func (p *party) stillWaits(r driver.Request) {
	p.t.Helper()
	r.Retry = true
	p.waits(r)
}

// answer is what a Join or an Await says.
type answer struct {
	driver.Ticket
	err error
}

func (p *party) begin(call func(context.Context) (driver.Ticket, error)) <-chan answer {
	came, ctx := make(chan answer, 1), limited(p.t)
	go func() {
		got, err := call(ctx)
		came <- answer{got, err}
	}()
	return came
}

func (p *party) joins(r driver.Request) <-chan answer {
	return p.begin(func(ctx context.Context) (driver.Ticket, error) { return p.Join(ctx, r) })
}

func (p *party) awaits(k driver.Ticket) <-chan answer {
	return p.begin(func(ctx context.Context) (driver.Ticket, error) { return p.Await(ctx, k) })
}

// unheard is a Join whose node stands, and whose client hears of that later, when it asks again.
func (p *party) unheard(r driver.Request) (hears func() answer) {
	p.t.Helper()
	lost := p.via.Lost()
	p.via.LoseReplies(1, zktest.With(zktest.OpCreate))
	if got := <-p.joins(r); got.err == nil || p.via.Lost() == lost {
		p.t.Fatalf("a Join without an answer: %+v", got)
	}
	r.Retry = true
	return func() answer { return <-p.joins(r) }
}

// stopped begins a call of which a request is held back. End lets it go on.
func (p *party) stopped(at func(zktest.Frame) bool, call func(context.Context) error) (end func() error) {
	p.t.Helper()
	hold := p.via.HoldRequests(at)
	ended, ctx := make(chan error, 1), limited(p.t)
	go func() { ended <- call(ctx) }()
	select {
	case <-hold.Held():
	case err := <-ended: // it needed no such request
		ended <- err
	}
	return func() error { hold.Release(); return <-ended }
}

// resizing begins to set a number, and holds back the transaction that does it: the first one catches up.
func (p *party) resizing(queue string, n int64) (end func() error) {
	p.t.Helper()
	return p.stopped(zktest.Nth(2, zktest.OpMulti), func(ctx context.Context) error { return p.d.Resize(ctx, queue, n) })
}

// granted is a Join or an Await that must come to hold.
func (p *party) granted(came <-chan answer) driver.Ticket {
	p.t.Helper()
	got := <-came
	if got.err != nil || !got.Held {
		p.t.Fatalf("not held: %+v", got)
	}
	return got.Ticket
}

// notGranted is a Join or an Await that must not have come to anything.
func (p *party) notGranted(came <-chan answer) {
	p.t.Helper()
	select {
	case got := <-came:
		p.t.Fatalf("granted: %+v", got)
	default:
	}
}

// refused is a Join, or a number, that must be refused beside what stands.
func (p *party) refused(err error) {
	p.t.Helper()
	if !errors.Is(err, driver.ErrMismatch) {
		p.t.Errorf("it is refused with %v", err)
	}
}

// refuses is a Join that must be refused.
func (p *party) refuses(r driver.Request) {
	p.t.Helper()
	_, err := p.Join(limited(p.t), r)
	p.refused(err)
}

func (p *party) leaves(all ...driver.Ticket) {
	p.t.Helper()
	for _, k := range all {
		noError(p.t, p.Leave(limited(p.t), k, true))
	}
}

// passes takes what is free and gives it back.
func (p *party) passes(r driver.Request) {
	p.t.Helper()
	p.leaves(p.holds(r))
}

// evicts asks another one for a ticket that is held, which is not removed.
func (p *party) evicts(of *party, k driver.Ticket) {
	p.t.Helper()
	noError(p.t, p.d.Ask(limited(p.t), k.Queue, k.ID, driver.Evict))
	states, err := of.Renew(limited(p.t), []driver.Ticket{k})
	noError(p.t, err)
	for _, r := range states {
		if r.ID == k.ID && r.State != driver.Evicted {
			p.t.Errorf("a holder that is evicted is told that its ticket is %v", r.State)
		}
	}
	of.leaves(k) // it stands
}

func (p *party) resizes(queue string, n int64) {
	p.t.Helper()
	noError(p.t, p.d.Resize(limited(p.t), queue, n))
}

// shows looks at a queue.
func (p *party) shows(queue string) driver.Queue {
	p.t.Helper()
	q, err := p.d.Follow(limited(p.t), queue, "")
	noError(p.t, err)
	return q
}

// nodes are those below a queue.
func (p *party) nodes(queue string) []string {
	p.t.Helper()
	return nodes(p.t, p.raw, "/a/"+queue)
}
