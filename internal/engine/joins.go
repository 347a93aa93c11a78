package engine

import (
	"context"
	"time"
)

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
