package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// queue is all that this client has in one queue of the backend: its tickets with their leases, the goroutines that
// wait for one of these (localQueue), and the tickets that are still to join (joins).
//
// One mutex guards all of it. A method of these types that does not lock it is called with it. The mutex of the
// engine may be locked under it, and no other. A ticket is listed here if and only if the backend may have it.
type queue struct {
	e    *Engine
	name string       // as the backend knows it
	refs atomic.Int32 // of calls and tickets; without any it is not in engine.queues

	guard
	tickets  list[ticket]
	writers  int    // tickets of the writer's side, which keep out readers that come after them
	arrivals uint64 // counts writers' tickets and readers who wait in a local queue
	joins    joins
	local    localQueue // the first; the others follow it
}

// queue finds or makes the queue of a name. leave is to be called once for it.
func (e *Engine) queue(name string) *queue {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queues[name]
	if q == nil {
		if n := len(e.unused); n > 0 {
			q, e.unused = e.unused[n-1], e.unused[:n-1]
		} else {
			q = &queue{e: e}
		}
		q.name = name
		e.queues[name] = q
	}
	q.refs.Add(1)
	return q
}

// mostUnused is how many queues are kept for other names: most locks are acquired and released by one goroutine, and
// need a queue for that time. What is left of a queue that is unused is a mutex, which leases that have ended go on
// using.
const mostUnused = 64

// leave notes that a call or a ticket needs the queue no more.
func (q *queue) leave() {
	if q.refs.Add(-1) > 0 {
		return
	}
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	if q.refs.Load() == 0 && q.e.queues[q.name] == q { // nobody has found it meanwhile
		delete(q.e.queues, q.name)
		if len(q.e.unused) < mostUnused {
			q.e.unused = append(q.e.unused, q)
		}
	}
}

// allQueues are those that have tickets, and perhaps others.
func (e *Engine) allQueues() []*queue {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*queue, 0, len(e.queues))
	for _, q := range e.queues {
		all = append(all, q)
	}
	return all
}

// eachTicket calls f for each ticket of the client, with the mutex of its queue held.
func (e *Engine) eachTicket(f func(*ticket)) {
	for _, q := range e.allQueues() {
		q.each(f)
	}
}

// each calls f for each ticket, with the mutex held.
func (q *queue) each(f func(*ticket)) {
	q.mu.Lock()
	defer q.unlock()
	for t := range q.tickets.all() {
		f(t)
	}
}

// ticket finds a ticket of this client; nil if there is none.
func (e *Engine) ticket(queue, id string) *ticket {
	q := e.queue(queue)
	defer q.leave()
	q.mu.Lock()
	defer q.unlock()
	return q.ticket(id)
}

func (q *queue) ticket(id string) *ticket {
	for t := range q.tickets.all() {
		if t.req.ID == id {
			return t
		}
	}
	return nil
}

// guard is a mutex under which no call of the backend or of the user is made: what follows from a change, and makes such
// a call or locks again, is put off by then, and done by unlock.
type guard struct {
	mu      sync.Mutex
	effects []func()
}

// afterUnlock has f called when the mutex is free.
func (g *guard) afterUnlock(f func()) { g.effects = append(g.effects, f) }

// unlock frees the mutex, and does what was put off.
func (g *guard) unlock() {
	effects := g.effects
	g.effects = nil
	g.mu.Unlock()
	for _, f := range effects {
		f()
	}
}

// ErrTaken: the client has a ticket with this ID.
var ErrTaken = errors.New("the ticket is known")

// list adds a ticket as one of a session. One that has ended loses the tickets that are listed by then, and has perhaps
// done so.
func (q *queue) list(t *ticket, sess *session) error {
	q.mu.Lock()
	defer q.unlock()
	switch {
	case t.req.Hold > 0 && q.ticket(t.req.ID) != nil: // else its ID is new
		return ErrTaken
	case sess.ended.Load():
		return driver.ErrSession
	}
	t.sess = sess
	q.tickets.push(&t.place, t)
	q.refs.Add(1)
	q.e.tickets.Add(1)
	if t.req.Kind == driver.RWMutex && t.req.Units == t.req.Capacity {
		q.arrivals++
		t.writer, t.came = true, q.arrivals
		q.writers++
	}
	return nil
}

// forget takes a ticket off the list: the backend does not have it any more.
func (q *queue) forget(t *ticket) {
	if !t.place.listed() {
		return
	}
	q.tickets.remove(&t.place)
	q.uncount(t)
	q.joins.end(t)
	q.e.wakeClose(q.e.tickets.Add(-1))
	q.leave()
}

// uncount notes that the ticket keeps readers out no more.
func (q *queue) uncount(t *ticket) {
	if t.writer {
		t.writer = false
		q.writers--
	}
}

// firstWriter is the arrival of the first ticket that waits for the writer's side; none comes as late as its result
// if there is none.
func (q *queue) firstWriter() uint64 {
	for t := range q.tickets.all() {
		if t.writer && t.state <= ticketQueued {
			return t.came
		}
	}
	return ^uint64(0)
}

// localOf finds or makes the local queue in which goroutines wait for what they want alike.
func (q *queue) localOf(r *Request) *localQueue {
	key := localKey{r.Kind, r.Units, r.Capacity, r.ReportDeath, r.Sticky}
	n := &q.local
	for n.q != nil && n.key != key {
		if n.next == nil {
			n.next = &localQueue{}
		}
		n = n.next
	}
	if n.q == nil {
		n.q, n.key, n.shared = q, key, !r.Exclusive()
	}
	return n
}

// joins bounds how many tickets of this client join a queue. Each that joins, and each that
// gives up, costs the backend an exchange, and releases wait behind those. A ticket
// behind many others of the same client is not served for a while, and need not hurry. So
// when enough of them stand there, others join one at a time, with a rest after each that
// is the longer the slower the backend is. When few are left, since they were granted or
// left, as many join together as are enough: their Joins can share exchanges. A ticket
// that gives up before it has joined costs nothing. The mutex of the queue guards it.
type joins struct {
	joined int          // tickets whose Join was sent, which are not held and have not left
	coming list[joiner] // still to join, in order
	slow   bool         // one joins though enough have, or rests after that
}

// joiner is a ticket that is still to join. ready has a value once it may.
type joiner struct {
	place node[joiner]
	ready chan bool
}

const (
	Crowded = 64          // tickets are enough
	few     = Crowded / 2 // tickets are not
	rest    = 4           // times as long as a Join has taken
)

// begin waits until the Join of a ticket may be sent. slow: it is sent though enough have joined, and when it has an
// answer, there is to be a rest. end is to be called when the ticket is held, or has left.
func (j *joins) begin(ctx context.Context, q *queue, t *ticket, by Holder) (slow bool, err error) {
	q.mu.Lock()
	if j.joined < Crowded && j.coming.empty() {
		j.joined++
		t.joins = true
		q.unlock()
		return false, nil
	}
	next := &joiner{ready: make(chan bool, 1)}
	j.coming.push(&next.place, next)
	j.admit()
	q.unlock()
	waits(by)
	select {
	case slow = <-next.ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-q.e.ctx.Done():
		err = ErrClosed
	}
	q.mu.Lock()
	defer q.unlock()
	if err != nil {
		select {
		case slow = <-next.ready: // at the same moment
			j.joined--
			j.slow = j.slow && !slow
		default:
			j.coming.remove(&next.place)
		}
		j.admit()
		return false, err
	}
	t.joins = true
	return slow, nil
}

// restAfter has the next one join a while after a Join that was sent at some time.
func (j *joins) restAfter(q *queue, sent time.Time) {
	q.refs.Add(1)
	time.AfterFunc(rest*time.Since(sent), func() {
		defer q.leave()
		q.mu.Lock()
		defer q.unlock()
		j.slow = false
		j.admit()
	})
}

// end is called when the ticket is held, or has left.
func (j *joins) end(t *ticket) {
	if t.joins {
		t.joins = false
		j.joined--
		j.admit()
	}
}

// admit lets those join who may.
func (j *joins) admit() {
	if j.joined <= few {
		for j.joined < Crowded && !j.coming.empty() {
			j.call(false)
		}
	}
	if !j.slow && !j.coming.empty() {
		j.slow = true
		j.call(true)
	}
}

// call lets the first of those join that are still to join.
func (j *joins) call(slow bool) {
	j.joined++
	next := j.coming.first.of
	j.coming.remove(&next.place)
	next.ready <- slow
}
