package zklock

import (
	"context"
	"slices"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// waiting is what a waiter watches: the tickets of which one has to leave first, and the one in
// front of them. When that has left, the mark tells whether the next one holds;
// its end then is this one's grant, and nothing has to be read.
type waiting struct {
	obstacles []obstacle
	enough    bool           // the ticket is held once the only obstacle has left
	next      *ticket        // in front of an only obstacle, if both and the waiter need everything
	permits   string         // the node that changes if the number of permits does; "" for other kinds
	set       bool           // that node stands
	epoch     uint64         // the connection that this was seen on
	since     uint64         // a transaction that was seen
	again     bool           // it was watched before
	stale     bool           // it is not as it was seen any more
	due       driver.Instant // when the first obstacle with a fixed end may be removed; 0: none has one
	on        map[string]*zk.Watch
}

type obstacle struct {
	*ticket
	whole bool // it needs everything
}

// waits says that the ticket waits, and has watched what keeps it out.
func (t *entry) waits(ctx context.Context, f *listing, p *keys.Place[*ticket]) (st exchange.Status, err error) {
	s := t.s
	w := &waiting{set: f.number.node != "", epoch: f.Epoch, since: f.Since, on: map[string]*zk.Watch{}}
	obstacles, enough := p.Obstacles()
	w.enough = enough
	for _, o := range obstacles {
		w.obstacles = append(w.obstacles, obstacle{o, f.NeedsAll(o)})
	}
	if n := len(p.Before); len(w.obstacles) == 1 && n >= 2 && f.NeedsAll(t.key) && f.NeedsAll(p.Before[n-1]) && f.NeedsAll(p.Before[n-2]) {
		w.next = p.Before[n-2]
	}
	if t.key.Kind == driver.Semaphore {
		if w.permits = f.number.node; w.permits == "" {
			w.permits = bell
		}
	}
	for _, o := range w.obstacles {
		if o.until != 0 {
			now, _, by, err := s.store.clock(ctx, s.l)
			if err != nil {
				return st, err
			}
			if end := by.Add(o.left(now) + time.Millisecond); w.due == 0 || end < w.due {
				w.due = end
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := t.wait; old != nil {
		w.on, w.again = old.on, true // the watches that are still wanted stay
	} else {
		w.since = t.zxid // else its own data would have to be read
	}
	t.wait = w
	if !t.j.NoWait {
		t.inTurn(t.watch)
	}
	return t.statusNow(), nil
}

// statusNow is the status of a ticket as far as memory says it; s.mu is held.
func (t *entry) statusNow() exchange.Status {
	if (t.stray || t.evicted) && !t.fixed && driver.Now() >= t.end {
		return exchange.Status{} // it is about to be removed
	}
	st := exchange.Status{State: t.state, Tag: t.zxid, Sent: t.s.proof(), Revoked: t.revoked, Evicted: t.evicted, Stray: t.stray}
	if t.state == exchange.Held {
		st.Token, st.Inherited, st.Wanted = t.token, t.inherited, t.wanted
	}
	if w := t.wait; w != nil && w.due != 0 {
		st.Due = max(w.due.Sub(driver.Now()), 1)
	}
	if t.stray || t.evicted || t.fixed {
		st.Left = t.end.Sub(driver.Now())
	}
	if t.fixed {
		st.Fixed, st.Stray, st.Hold = true, false, t.hold
		st.Left, st.Sent = t.hold, t.end.Add(-t.hold) // which is before the clock was read
	}
	return st
}

// unwatch ends all watches of a waiter; s.mu is held.
func (t *entry) unwatch() {
	if t.wait != nil {
		for _, w := range t.wait.on {
			t.s.l.Ignore(w)
		}
		t.wait = nil
	}
}

// mayHold has the client look at the ticket.
func (t *entry) mayHold() {
	t.s.store.tell(exchange.Event{Type: exchange.Granted, ID: t.j.ID, Unverified: true})
}

// waitNow is what the ticket waits for, if that is still so; s.mu is held.
func (t *entry) waitNow() *waiting {
	w := t.wait
	if t.state != exchange.Waiting || w == nil || w.stale || w.epoch != t.s.l.Epoch() {
		return nil
	}
	return w
}

// nodes are what a waiter watches: its own may be removed by hand.
func (w *waiting) nodes(own string) map[string]bool {
	all := map[string]bool{own: true}
	for _, o := range w.obstacles {
		all[o.node] = true
	}
	if w.next != nil {
		all[w.next.node] = true
	}
	if w.permits != "" {
		all[w.permits] = true
	}
	return all
}

// watch draws conclusions from the watches that have fired, sets the missing ones, and reads what a grant will
// need, while there is time.
func (t *entry) watch(ctx context.Context) {
	s := t.s
	s.mu.Lock()
	w := t.waitNow()
	if w == nil { // else it is looked at again when the connection is there
		s.mu.Unlock()
		return
	}
	own := t.key.node
	missing := w.nodes(own)
	var gone *obstacle
	looks, next := false, false
	for node, on := range w.on {
		what, fired := on.Fired()
		wanted := missing[node]
		delete(missing, node)
		if wanted && !fired {
			continue
		}
		s.l.Ignore(on)
		delete(w.on, node)
		i := slices.IndexFunc(w.obstacles, func(o obstacle) bool { return o.node == node })
		switch {
		case !wanted:
		case what != zk.NodeDeleted, node == own, node == w.permits:
			looks = true
		case i >= 0:
			gone = &w.obstacles[i]
		default:
			next = true
		}
	}
	s.mu.Unlock()
	if gone != nil && !looks {
		t.passed(ctx, w, gone)
		return
	}
	if looks || next && !t.advance(ctx, w) || !t.set(ctx, w, missing, own) {
		t.lookAnew()
		return
	}
	_, _ = s.store.floor(ctx, s.l, t.q, 0)
	s.mu.Lock()
	lost := t.wait == w && t.waitNow() == nil
	s.mu.Unlock()
	if lost {
		t.lookAnew()
	}
}

// lookAnew has the line listed again.
func (t *entry) lookAnew() {
	t.s.mu.Lock()
	waits := t.state == exchange.Waiting
	if t.wait != nil {
		t.wait.stale = true
	}
	t.s.mu.Unlock()
	if waits {
		t.mayHold()
	}
}

// set has nodes watched, by one request: what has happened meanwhile is told as if it happened now. It reports false if
// that fails.
func (t *entry) set(ctx context.Context, w *waiting, want map[string]bool, own string) bool {
	s := t.s
	if len(want) == 0 {
		return true
	}
	give, err := s.l.Slot(ctx, zk.Watching)
	if err != nil {
		return false
	}
	defer give()
	var nodes, absent []string
	s.mu.Lock()
	for node := range want {
		path := t.q.path + "/" + node
		w.on[node] = s.l.Watch(path, false, func() { t.inTurn(t.watch) })
		if node == w.permits && !w.set {
			absent = append(absent, path)
		} else {
			nodes = append(nodes, path)
		}
	}
	s.mu.Unlock()
	err = s.l.WatchAll(ctx, w.since, nodes, absent)
	ok := err == nil
	s.mu.Lock()
	for node := range want {
		// A node that had gone before it was watched may have another in its place.
		if _, gone := w.on[node].Fired(); gone && (w.next == nil || node != w.next.node) {
			ok = false
			delete(w.on, node)
		}
	}
	s.mu.Unlock()
	if ok && want[own] && (w.again || s.store.lends(t.j.Kind)) {
		var c zk.Content
		if c, err = s.l.Get(ctx, t.q.path+"/"+own); err == nil {
			t.seen(c)
		}
	}
	if err != nil {
		s.mu.Lock()
		for node := range want {
			s.l.Ignore(w.on[node])
			delete(w.on, node)
		}
		s.mu.Unlock()
	}
	return ok && err == nil
}

// passed sees whether the ticket is held after an obstacle has left: for sure if
// nothing else was in the way, or if the obstacle was held, after which none
// before it is left.
func (t *entry) passed(ctx context.Context, w *waiting, o *obstacle) {
	s := t.s
	robust := t.j.ReportDeath // it has to know how the last holder has left
	granted := w.enough && !robust
	if !granted && o.whole {
		granted = t.marked(ctx, o.ticket)
	}
	s.mu.Lock()
	// A number of permits that was set before the obstacle left can keep the ticket out; the event of that has come by now.
	quiet := t.waitNow() == w && w.on[t.key.node].Live() && (w.permits == "" || w.on[w.permits].Live())
	if granted = granted && quiet && t.j.Hold == 0; granted {
		t.mark.leaves = t.key.Units >= t.key.Capacity
		if robust {
			t.heir.Clean()
			t.inherited = false
		}
	}
	s.mu.Unlock()
	if granted {
		switch st, err := t.recipe.grant(ctx, false); {
		case err == nil && st.State == exchange.Held:
			s.store.tell(exchange.Event{Type: exchange.Granted, ID: t.j.ID, Status: st})
			return
		case err == nil && st.State == exchange.Waiting: // it is granted, but has to wait for more than its line
			return
		}
	}
	t.lookAnew()
}

// advance sees whether the only obstacle holds, now that the ticket in front of it
// has left, or has held and left as well. Its end will then be enough.
func (t *entry) advance(ctx context.Context, w *waiting) bool {
	held := t.marked(ctx, w.next, w.obstacles[0].ticket)
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if held {
		w.enough, w.next = true, nil
	}
	return held
}

// marked reports whether one of the tickets was held and left cleanly, and was the
// last to do so.
func (t *entry) marked(ctx context.Context, any ...*ticket) bool {
	c, err := t.s.l.Get(ctx, t.q.path)
	if err != nil {
		return false
	}
	mark, ok, _ := t.q.learn(c.Data)
	for _, o := range any {
		if ok && o.Order == mark {
			return true
		}
	}
	return false
}

// grant notes that the ticket is held, and says so. It was found in the queue.
func (t *entry) grant(ctx context.Context, wanted bool) (st exchange.Status, err error) {
	s := t.s
	add, err := s.store.floor(ctx, s.l, t.q, t.zxid)
	if err != nil {
		return st, err
	}
	s.mu.Lock()
	if t.ended {
		s.mu.Unlock()
		return st, nil
	}
	if t.token == 0 { // else it was told one in an earlier session
		t.token = t.zxid + add
	}
	if t.token >= driver.MaxToken {
		s.mu.Unlock()
		return st, exchange.ErrTokens
	}
	s.store.note(t.zxid, t.token)
	hold, until := t.j.Hold, t.key.until
	if hold == 0 && until == 0 {
		defer s.mu.Unlock()
		t.granted(wanted)
		return t.statusNow(), nil
	}
	s.mu.Unlock()
	if until != 0 {
		err = t.isFixed(ctx, wanted)
	} else {
		err = t.fix(ctx, hold, false, wanted)
	}
	if err != nil {
		return st, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.statusNow(), nil
}

// settledAfter is for how long a ticket is held before it is watched: by the client, its end, and whether others wait.
// Shorter ones are spared the cost.
const settledAfter = 20 * time.Millisecond

// granted notes a grant; s.mu is held.
func (t *entry) granted(wanted bool) {
	if t.state == exchange.Held {
		return
	}
	t.state, t.wanted, t.since = exchange.Held, wanted, driver.Now()
	t.unwatch()
	t.settled = time.AfterFunc(settledAfter, func() {
		t.s.background(func(ctx context.Context) { t.s.watchHolder(ctx, t) })
	})
}

// status is the status of a holder.
func (t *entry) status(ctx context.Context, wanted bool) (exchange.Status, error) {
	if now := t.now(); now.fixed && now.key.until != 0 && (now.key.until != now.until || now.key.evicted != now.evicted) { // by another client
		if err := t.isFixed(ctx, wanted); err != nil {
			return exchange.Status{}, err
		}
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.wanted = t.wanted || wanted
	return t.statusNow(), nil
}

// seen is called when the node of a waiter was read.
func (t *entry) seen(c zk.Content) {
	t.s.mu.Lock()
	t.began = c.Stat.Ctime
	t.s.mu.Unlock()
	if revoked(c.Data) {
		t.demanded(driver.Revoke)
	}
}
