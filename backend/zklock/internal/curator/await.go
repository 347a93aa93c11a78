package curator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// Await watches the tickets of which one has to leave first, and the one in
// front of them: when that has left, the mark tells whether the next one holds;
// its end then is this one's grant, and nothing has to be read.
func (s *session) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	if err := s.usable(ctx); err != nil {
		return driver.Ticket{}, err
	}
	p := s.place(t.ID)
	if p == nil || p.q.name != t.Queue {
		return driver.Ticket{}, driver.ErrGone
	}
	if p.q.leases != nil {
		return s.awaitLeases(ctx, p)
	}
	if err := s.verified(ctx, p); err != nil {
		return driver.Ticket{}, err
	}
	limit := ctx
	ctx, cancel := s.within(ctx)
	defer cancel()
	a := &awaiting{s: s, p: p, bell: make(chan struct{}, 1), on: map[string]*zk.Watch{}}
	defer a.end()
	pause := 10 * time.Millisecond
	for {
		switch p.known() {
		case held, gone:
			got, err := p.ticket()
			if e := s.usable(limit); e != nil {
				return driver.Ticket{}, e
			}
			return got, err
		}
		err := a.step(ctx)
		if err == nil {
			continue
		}
		if e := s.failed(limit, err); driver.IsPermanent(e) || ctx.Err() != nil {
			return driver.Ticket{}, e
		}
		select { // the connection was lost
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		case <-ctx.Done():
		}
	}
}

// verified makes sure of a ticket that is held: nothing has told, perhaps, that it was
// taken away. Errors that pass do not end that.
func (s *session) verified(ctx context.Context, p *place) error {
	inner, cancel := s.within(ctx)
	defer cancel()
	var pauses backoff.Backoff
	for p.known() == held {
		err := s.verify(inner, p)
		if err == nil || errors.Is(err, driver.ErrGone) {
			return nil
		}
		if err = s.failed(ctx, err); driver.IsPermanent(err) || inner.Err() != nil {
			return err
		}
		_ = pauses.Sleep(inner)
	}
	return nil
}

// awaiting is a call of Await.
type awaiting struct {
	s    *session
	p    *place
	bell chan struct{}
	on   map[string]*zk.Watch // by node
	end0 driver.Instant       // of the first fixed end in front
}

func (a *awaiting) end() {
	for _, w := range a.on {
		a.s.l.Ignore(w)
	}
}

// step finds out where the ticket stands, if that is not known, and waits for the
// next change.
func (a *awaiting) step(ctx context.Context) error {
	if err := a.p.await.take(ctx); err != nil {
		return err
	}
	v, err := a.prepare(ctx)
	a.p.await.give()
	if v == nil || err != nil {
		return err
	}
	a.s.mu.Lock()
	news, state := a.p.news, a.p.state
	a.s.mu.Unlock()
	if state != waiting {
		return nil
	}
	var timer <-chan time.Time
	if v.ends {
		t := time.NewTimer(max(a.end0.Sub(a.s.d.Now()), time.Millisecond))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-a.bell:
	case <-news:
	case <-timer:
		a.forget()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := a.p.await.take(ctx); err != nil {
		return err
	}
	defer a.p.await.give()
	return a.react(ctx, v)
}

// own is the node of the ticket.
func (a *awaiting) own() string {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.p.n.node
}

// view returns what is known of the line in front; nil if it has to be listed.
func (a *awaiting) view() *view {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.p.epoch != a.s.l.Epoch() {
		return nil
	}
	return a.p.view
}

// forget has the line listed again.
func (a *awaiting) forget() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.p.view = nil
}

// prepare has all watches set that the ticket needs. It returns nil once the
// ticket does not wait any more.
func (a *awaiting) prepare(ctx context.Context) (*view, error) {
	for a.p.known() == waiting && !a.p.lends() {
		v := a.view()
		if v == nil {
			if err := a.s.look(ctx, a.p); err != nil {
				return nil, err
			}
			continue
		}
		changed, err := a.watch(ctx, v)
		if err != nil {
			return nil, err
		}
		if changed {
			a.forget()
			continue
		}
		// All that the grant needs is read while there is time.
		_, err = a.s.d.floor(ctx, a.s.l, a.p.q, 0)
		return v, err
	}
	return nil, nil
}

// watch sets the watches that are missing. It reports whether something has changed
// meanwhile.
func (a *awaiting) watch(ctx context.Context, v *view) (changed bool, err error) {
	own := a.own()
	want := map[string]bool{own: true} // somebody may remove it by hand
	a.end0 = 0
	for _, o := range v.obstacles {
		want[o.node] = true
		if o.until != 0 {
			if err := a.until(ctx, &o.name); err != nil {
				return false, err
			}
		}
	}
	if v.next.node != "" {
		want[v.next.node] = true
	}
	if v.permits != "" {
		want[v.permits] = true
	}
	for node, w := range a.on {
		what, fired := w.Fired()
		if fired && what == zk.NodeDeleted && want[node] {
			ring(a.bell) // it came while something else was looked at
			continue
		}
		if fired || !want[node] {
			a.s.l.Ignore(w)
			delete(a.on, node)
		}
	}
	maps.DeleteFunc(want, func(node string, _ bool) bool { return a.on[node] != nil })
	give := func() {}
	if len(want) > 0 {
		if give, err = a.s.l.Slot(ctx, zk.Watching); err != nil {
			return false, err
		}
	}
	type result struct {
		node string
		err  error
	}
	results := make(chan result, len(want))
	var asking sync.WaitGroup
	for node := range want {
		path := a.p.q.path + "/" + node
		a.on[node] = a.s.l.watch(path, false, a.bell)
		asking.Go(func() {
			var c content
			var err error
			if node == v.permits {
				err = a.s.l.Stands(context.Background(), path, v.set)
			} else {
				c, err = a.s.l.See(context.Background(), path)
			}
			if err == nil && node == own {
				a.p.seen(c)
			}
			results <- result{node, err}
		})
	}
	go func() { // the caller may give up before they are answered
		asking.Wait()
		give()
	}()
	for range len(want) {
		var r result
		select {
		case r = <-results:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		if r.err != nil {
			a.s.l.Ignore(a.on[r.node])
			delete(a.on, r.node)
		}
		switch {
		case errors.Is(r.err, zk.ErrNoNode) && r.node == v.next.node:
			// It tells only that the mark is to be read.
			err = errors.Join(err, a.advance(ctx, v))
		case errors.Is(r.err, zk.ErrNoNode):
			changed = true
		case r.err != nil:
			err = errors.Join(err, r.err)
		}
	}
	return changed || a.view() != v, err
}

// until notes when, by the local clock, a ticket with a fixed end may be removed.
func (a *awaiting) until(ctx context.Context, n *name) error {
	now, _, by, err := a.s.d.clock(ctx, a.s.l)
	if err != nil {
		return err
	}
	end := by.Add(n.left(now) + time.Millisecond)
	if a.end0 == 0 || end < a.end0 {
		a.end0 = end
	}
	return nil
}

// react draws conclusions from the watches that have fired.
func (a *awaiting) react(ctx context.Context, v *view) error {
	if a.p.known() != waiting || a.view() != v {
		return nil
	}
	own := a.own()
	for node, w := range a.on {
		what, fired := w.Fired()
		if !fired {
			continue
		}
		delete(a.on, node)
		if what != zk.NodeDeleted || node == own || node == v.permits {
			a.forget()
			continue
		}
		if node == v.next.node {
			if err := a.advance(ctx, v); err != nil {
				return err
			}
		}
		for _, o := range v.obstacles {
			if o.node == node {
				return a.passed(ctx, v, o, own)
			}
		}
	}
	return nil
}

// passed sees whether the ticket is held after an obstacle has left: for sure if
// nothing else was in the way, or if the obstacle was held, after which nobody
// before it is left.
func (a *awaiting) passed(ctx context.Context, v *view, o obstacle, own string) error {
	robust := a.p.reads() // has to know how the last holder left
	granted := o.enough && !robust
	if !granted && o.exclusive() {
		var err error
		if granted, err = a.marked(ctx, &o.name); err != nil {
			a.forget()
			return err
		}
	}
	if granted && a.quiet(own) && (v.permits == "" || a.quiet(v.permits)) && a.view() == v {
		if robust {
			a.s.mu.Lock()
			a.p.based, a.p.heir = true, false
			a.s.mu.Unlock()
		}
		a.s.mu.Lock()
		a.p.whole = a.p.n.exclusive()
		a.s.mu.Unlock()
		return a.s.grant(ctx, a.p, false)
	}
	a.forget()
	return nil
}

// quiet reports whether a node is watched, and as it was.
func (a *awaiting) quiet(node string) bool {
	_, fired := a.on[node].Fired()
	return a.on[node] != nil && !fired
}

// advance sees whether the only obstacle holds, now that the ticket in front of it
// has left, or has held and left as well. Its end will then be enough.
func (a *awaiting) advance(ctx context.Context, v *view) error {
	held, err := a.marked(ctx, &v.next, &v.obstacles[0].name)
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	switch {
	case err != nil || a.p.view != v:
	case held:
		v.obstacles[0].enough, v.next = true, name{}
	default:
		a.p.view = nil
	}
	return err
}

// marked reports whether one of the tickets was held and left cleanly, and was the
// last to do so.
func (a *awaiting) marked(ctx context.Context, names ...*name) (bool, error) {
	c, err := a.s.l.Get(ctx, a.p.q.path)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	a.p.q.learn(c.Data)
	number, ok := marked(c.Data)
	return ok && slices.ContainsFunc(names, func(n *name) bool { return n.number == number }), nil
}
