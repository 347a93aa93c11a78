package exchange

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Changes wait while an exchange of their lane is under way, and the next one has them as a batch: it costs a round
// trip, and the backend a commit, for one change as for many. The first one goes at once, in its caller's goroutine, so
// that a caller who is alone pays nothing. A lane that gets no answer holds nothing up for longer than Traits.Patience.

// laneOf says which changes are batched.
type laneOf struct {
	class class

	// For waiters that leave: waiters of one queue do, on every store. So a crowd that gives up
	// is gone soon. A grant to one of them is in vain, and the queue stands still until that ticket has left.
	s     *session
	queue string
	clean bool
}

// lane is what waits for the next batch. Driver.batching guards it.
type lane struct {
	of       laneOf
	underWay int        // exchanges
	starting bool       // one of these waits for room, and will take what waits
	waiting  []*request // in the order in which they came
	late     *time.Timer
}

const (
	perWithdraw = 100      // how many waiters leave in one exchange, if the store does not say how much it takes
	mostBytes   = 64 << 10 // of notes in one exchange
)

// PendingChanges counts the changes that wait for others, for tests of a store.
func (d *Driver) PendingChanges() (n int) {
	d.batching.Lock()
	defer d.batching.Unlock()
	for _, l := range d.lanes {
		n += len(l.waiting)
	}
	return n
}

// request is a change that waits for a batch, or is in one.
type request struct {
	change Change
	free   func()        // gives back its room
	done   chan struct{} // closed when there is an answer
	answer Answer

	// Guarded by Driver.batching.
	of       *batch // nil: it waits
	answered bool
	gaveUp   bool // its caller
}

// batch is an exchange of several changes.
type batch struct {
	callers int // how many have not given up
	cut     context.CancelFunc
}

// submitted is what became of a change.
type submitted struct {
	Answer
	unsent bool            // it has no effect, and never will
	ended  <-chan struct{} // closed when its exchange has ended; nil: it has
}

var errNotAnswered = errors.New("the store has not answered")

// submit makes a change, in the goroutine of its caller or with others of its lane.
func (d *Driver) submit(ctx context.Context, of laneOf, c Change) submitted {
	ctx = d.with(ctx, of.class)
	free := func() {}
	if j, is := c.(*Join); is && !d.traits.Bounded {
		var err error
		if free, err = d.joins.acquire(ctx, d.ctx, j.Queue); err != nil {
			return submitted{Answer: Answer{Err: d.failed(ctx, err)}, unsent: true}
		}
	}
	if of.queue == "" && d.traits.Together < 2 {
		return d.alone(ctx, nil, c, free)
	}
	d.batching.Lock()
	l := d.lanes[of]
	if l == nil {
		l = &lane{of: of}
		d.lanes[of] = l
	}
	if l.underWay == 0 {
		l.underWay++
		d.batching.Unlock()
		return d.alone(ctx, l, c, free)
	}
	r := &request{change: c, free: free, done: make(chan struct{})}
	if l.waiting = append(l.waiting, r); len(l.waiting) == 1 {
		d.waitNoLonger(l)
	}
	d.batching.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
	case <-d.ctx.Done():
	}
	if sent, answered := d.giveUp(l, r); !answered {
		err := d.usable(ctx)
		return submitted{Answer{Err: d.failed(ctx, err)}, !sent, r.done}
	}
	if r.answer.Err == ErrAlone {
		m := d.alone(ctx, nil, c, free)
		if r.of != nil { // the network may have brought the list twice, the first time with another outcome
			m.unsent = false
		}
		return m
	}
	r.answer.Err = d.failed(ctx, r.answer.Err)
	return submitted{Answer: r.answer}
}

// giveUp is called when the caller of a request goes on. If it has no answer, it is not made, unless it is sent:
// then its exchange goes on for as long as one of a single caller, when no other is left.
func (d *Driver) giveUp(l *lane, r *request) (sent, answered bool) {
	d.batching.Lock()
	defer d.batching.Unlock()
	switch {
	case r.answered:
		return true, true
	case r.of == nil:
		l.waiting = slices.DeleteFunc(l.waiting, func(o *request) bool { return o == r })
		r.free()
		return false, false
	}
	r.gaveUp = true
	if r.of.callers--; r.of.callers > 0 {
	} else if d.traits.Bounded {
		r.of.cut()
	} else {
		time.AfterFunc(l.of.class.lingers(), r.of.cut)
	}
	return true, false
}

// alone makes an exchange of one change, which may be of a lane.
func (d *Driver) alone(ctx context.Context, l *lane, c Change, free func()) (m submitted) {
	room, err := d.room(ctx)
	if err != nil {
		free()
		d.ended(l)
		return submitted{Answer: Answer{Err: err}, unsent: true}
	}
	if d.traits.Bounded {
		m.Status, m.Err = callWithin(ctx, d, nil, changeOne, c)
		d.ended(l)
		return m
	}
	end := func() { room(); free(); d.ended(l) }
	cut := false
	if d.prompt(ctx, c) {
		if m.Status, m.Err, cut = d.attached(ctx, c); !cut {
			end()
			return m
		}
	}
	ended := make(chan struct{})
	m.ended = ended
	if cut {
		time.AfterFunc(classOf(ctx).lingers(), func() { end(); close(ended) })
	} else {
		m.Status, m.Err = callWithin(ctx, d, func() { end(); close(ended) }, changeOne, c)
	}
	return m
}

func changeOne(s Store, ctx context.Context, c Change) (Status, error) {
	a := Alone(ctx, s, c)
	return a.Status, a.Err
}

// Alone makes a list of one change.
func Alone(ctx context.Context, s Store, c Change) Answer {
	l := lists.Get().(*listOfOne)
	defer lists.Put(l)
	l.changes[0], l.is = c, Answer{Err: errNotAnswered}
	s.Change(ctx, l.changes[:], l.answer)
	l.changes[0] = nil
	return l.is
}

// listOfOne is used again: most exchanges are of one change.
type listOfOne struct {
	changes [1]Change
	is      Answer
	answer  func(int, Answer)
}

var lists = sync.Pool{New: func() any {
	l := &listOfOne{}
	l.answer = func(_ int, a Answer) { l.is = a }
	return l
}}

// ended is called when an exchange of a lane has ended; nil: it was of none.
func (d *Driver) ended(l *lane) {
	if l == nil {
		return
	}
	d.batching.Lock()
	defer d.batching.Unlock()
	l.underWay--
	switch {
	case len(l.waiting) > 0 && l.underWay == 0:
		d.start(l)
	case l.underWay == 0 && l.of.queue != "":
		delete(d.lanes, l.of)
	}
}

// start has an exchange begin that makes what waits. Driver.batching is held.
func (d *Driver) start(l *lane) {
	if !l.starting {
		l.starting = true
		l.underWay++
		d.background(func(ctx context.Context) { // else all callers see that the driver is closed
			d.sendBatch(d.with(ctx, l.of.class), l)
			d.ended(l)
		})
	}
}

// waitNoLonger has an exchange begin if those under way take long. Driver.batching is held.
func (d *Driver) waitNoLonger(l *lane) {
	switch {
	case d.traits.Patience == 0:
	case l.late == nil:
		l.late = time.AfterFunc(d.traits.Patience, func() {
			d.batching.Lock()
			defer d.batching.Unlock()
			if len(l.waiting) > 0 {
				d.start(l)
			}
		})
	default:
		l.late.Reset(d.traits.Patience)
	}
}

// nextBatch takes what waits, as much as goes into one exchange.
func (d *Driver) nextBatch(l *lane, of *batch) (all []*request) {
	d.batching.Lock()
	defer d.batching.Unlock()
	l.starting = false
	most, bytes := cmp.Or(d.traits.Together, perWithdraw), 0
	apart := d.traits.OnePerQueue && l.of.queue == ""
	taken := l.waiting[:min(most, len(l.waiting))]
	for i, r := range taken {
		if j, is := r.change.(*Join); is {
			bytes += len(j.Note)
		}
		if bytes > mostBytes && i > 0 {
			taken = taken[:i]
			break
		}
		if apart && slices.ContainsFunc(taken[:i], func(o *request) bool { return o.change.In() == r.change.In() }) {
			r.apart()
		} else {
			all = append(all, r)
		}
	}
	if apart && len(all) == 1 {
		all[0].apart()
		all = nil
	}
	for _, r := range all {
		r.of = of
	}
	of.callers = len(all)
	l.waiting = slices.Delete(l.waiting, 0, len(taken))
	if l.late != nil {
		l.late.Stop()
	}
	if len(l.waiting) > 0 {
		d.waitNoLonger(l)
	}
	return all
}

// apart has a request that was not sent go alone. Driver.batching is held.
func (r *request) apart() {
	r.answered, r.answer.Err = true, ErrAlone
	close(r.done)
}

// sendBatch makes what waits in a lane, in one exchange.
func (d *Driver) sendBatch(ctx context.Context, l *lane) {
	room, err := d.room(ctx)
	if err != nil {
		return // the driver is closed
	}
	defer room()
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	all := d.nextBatch(l, &batch{cut: cut})
	if len(all) == 0 {
		return
	}
	changes := make([]Change, len(all))
	for i, r := range all {
		changes[i] = r.change
	}
	answer := func(i int, a Answer) {
		r := all[i]
		r.answer = a
		d.batching.Lock()
		r.answered = true
		alone := a.Err == ErrAlone && !r.gaveUp
		d.batching.Unlock()
		if !alone { // else its caller goes on
			r.free()
		}
		close(r.done)
	}
	d.exchanges.Add(1)
	if d.repeats {
		d.store.Change(ctx, changes, func(int, Answer) {})
	}
	d.store.Change(ctx, changes, answer)
	for i, r := range all {
		if !r.answered {
			answer(i, Answer{Err: errNotAnswered})
		}
	}
}
