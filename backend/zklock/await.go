package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
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
	limit := ctx
	ctx, cancel := s.within(ctx)
	defer cancel()
	a := &awaiting{s: s, p: p, bell: make(chan struct{}, 1), on: map[string]*watch{}}
	defer a.end()
	pause := 10 * time.Millisecond
	for verified := false; ; {
		if !verified && p.known() == held { // nothing has told, perhaps, that it was taken away
			if err := s.look(ctx, p); err != nil && !errors.Is(err, driver.ErrGone) {
				return driver.Ticket{}, s.failed(limit, err)
			}
		}
		verified = true
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

// awaiting is a call of Await.
type awaiting struct {
	s      *session
	p      *place
	bell   chan struct{}
	on     map[string]*watch // by node
	listed bool              // p.line is of this connection
	ends   bool              // a ticket in front has a fixed end
	end0   driver.Instant
}

func (a *awaiting) end() {
	for _, w := range a.on {
		a.s.l.tap.ignore(w)
	}
}

// step looks where the ticket stands, if that is not known, and waits for the next
// change.
func (a *awaiting) step(ctx context.Context) error {
	a.p.await.Lock()
	err := a.prepare(ctx)
	a.p.await.Unlock()
	if err != nil || a.p.known() != waiting {
		a.listed = false
		return err
	}
	a.s.mu.Lock()
	news := a.p.news
	state := a.p.state
	a.s.mu.Unlock()
	if state != waiting {
		return nil
	}
	var timer <-chan time.Time
	if a.ends {
		t := time.NewTimer(max(a.end0.Sub(a.s.d.Now()), time.Millisecond))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-a.bell:
	case <-news:
	case <-timer:
		a.listed = false
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	a.p.await.Lock()
	defer a.p.await.Unlock()
	if a.p.known() != waiting {
		return nil
	}
	return a.react(ctx)
}

// prepare has all watches set that the ticket needs.
func (a *awaiting) prepare(ctx context.Context) error {
	for a.p.known() == waiting {
		if !a.listed {
			if err := a.s.look(ctx, a.p); err != nil || a.p.known() != waiting {
				return err
			}
			a.listed = true
		}
		again, err := a.watch(ctx)
		if err != nil {
			return err
		}
		if !again {
			return nil
		}
		a.listed = false
	}
	return nil
}

// watch sets the watches that are missing. It reports whether something has changed
// meanwhile.
func (a *awaiting) watch(ctx context.Context) (again bool, err error) {
	a.s.mu.Lock()
	l := a.p.line
	own := a.p.n.node
	a.s.mu.Unlock()
	if len(l) == 0 {
		return true, nil
	}
	i := len(l) - 1
	want := map[string]bool{own: true}
	a.ends = false
	for _, n := range l.obstacles(i) {
		want[n.node] = true
		if n.until != 0 {
			if err := a.until(ctx, n); err != nil {
				return false, err
			}
		}
	}
	if i >= 2 && l[i].exclusive() && l[i-1].exclusive() {
		want[l[i-2].node] = true
	}
	for node, w := range a.on {
		if _, fired := w.fired(); fired || !want[node] {
			a.s.l.tap.ignore(w)
			delete(a.on, node)
		}
	}
	type result struct {
		node string
		err  error
	}
	results := make(chan result, len(want))
	n := 0
	for node := range want {
		if a.on[node] != nil {
			continue
		}
		path := a.p.q.path + "/" + node
		a.on[node] = a.s.l.tap.watch(path, false, a.bell)
		n++
		go func() {
			_, err := a.s.l.spot(ctx, path)
			results <- result{node, err}
		}()
	}
	for range n {
		r := <-results
		if r.err != nil {
			a.s.l.tap.ignore(a.on[r.node])
			delete(a.on, r.node)
		}
		if errors.Is(r.err, zk.ErrNoNode) {
			again = true
		} else if r.err != nil {
			err = r.err
		}
	}
	return again, err
}

// until notes when, by the local clock, a ticket with a fixed end may be removed.
func (a *awaiting) until(ctx context.Context, n name) error {
	now, _, by, err := a.s.d.clock(ctx, a.s.l)
	if err != nil {
		return err
	}
	end := by.Add(time.Duration(n.until-now+1) * time.Millisecond)
	if !a.ends || end < a.end0 {
		a.ends, a.end0 = true, end
	}
	return nil
}

// react draws conclusions from the watches that have fired.
func (a *awaiting) react(ctx context.Context) error {
	a.s.mu.Lock()
	l := a.p.line
	own := a.p.n.node
	a.s.mu.Unlock()
	i := len(l) - 1
	if i < 1 {
		a.listed = false
		return nil
	}
	for node, w := range a.on {
		what, fired := w.fired()
		if !fired {
			continue
		}
		delete(a.on, node)
		switch {
		case what == nodeDeleted && node != own && l[i-1].node == node && !a.gone(own):
			if i == 1 && !a.p.req.Robust {
				return a.s.grant(ctx, a.p, false) // it was the only one in front
			}
			return a.marked(ctx, l, i-1)
		case what == nodeDeleted && i >= 2 && l[i-2].node == node && node != own:
			return a.marked(ctx, l, i-2)
		default:
			a.listed = false
		}
	}
	return nil
}

// gone reports whether the watch of a node has fired.
func (a *awaiting) gone(node string) bool {
	w := a.on[node]
	if w == nil {
		return true
	}
	_, fired := w.fired()
	return fired
}

// marked reads whether the ticket at j, which has gone, was held and left
// cleanly. Then all before it have gone, too.
func (a *awaiting) marked(ctx context.Context, l line, j int) error {
	a.listed = false
	if !l[j].exclusive() || a.p.req.Robust {
		return nil
	}
	c, err := a.s.l.get(ctx, a.p.q.path)
	if err != nil {
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	}
	number, ok := marked(c.data)
	if !ok || number != l[j].number {
		return nil
	}
	a.s.mu.Lock()
	if a.p.state != waiting || len(a.p.line) != len(l) {
		a.s.mu.Unlock()
		return nil
	}
	rest := append(line(nil), l[j+1:]...)
	a.p.line = rest
	a.s.mu.Unlock()
	if rest.holds(len(rest)-1) && !a.gone(a.p.n.node) {
		return a.s.grant(ctx, a.p, false)
	}
	a.listed = true
	return nil
}
