package interlock

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// crowds bounds how many tickets of this client come to a line. Each that comes, and each that
// gives up, costs the backend an exchange, and releases wait behind those. But whoever comes
// behind many others of the same client is not served for a while, and need not hurry. So
// when enough of them stand there, others come one at a time, with a rest after each that
// is the longer the slower the backend is. When few are left, since they were granted or
// left, as many come together as are enough: their Joins can share exchanges. A ticket
// that gives up before it has come costs nothing.
type crowds struct {
	mu    sync.Mutex
	all   map[string]*crowd // by queue
	spare *crowd            // one that was forgotten, for the next; nil if there is none
}

// crowd is what this client has in one queue.
type crowd struct {
	came   int       // tickets whose Join was sent, which are not held and have not left
	coming list.List // channels of those who are still to come, in order
	slow   bool      // one comes though enough are there, or rests after that
}

const (
	crowded = 64          // tickets are enough
	few     = crowded / 2 // tickets are not
	rest    = 4           // times as long as a Join has taken
)

// come waits until the Join of a ticket may be sent. Unless it returns an error, came is to be called
// when that has an answer, and crowds.gone when the ticket is held, or has left.
func (c *crowds) come(ctx, closed context.Context, queue string) (came func(), err error) {
	c.mu.Lock()
	if c.all == nil {
		c.all = map[string]*crowd{}
	}
	q := c.all[queue]
	if q == nil {
		if q, c.spare = c.spare, nil; q == nil {
			q = &crowd{}
		}
		c.all[queue] = q
	}
	if q.came < crowded && q.coming.Len() == 0 {
		q.came++
		c.mu.Unlock()
		return nothing, nil
	}
	turn := make(chan bool, 1)
	at := q.coming.PushBack(turn)
	c.admit(queue, q)
	c.mu.Unlock()
	callerOf(ctx).waits()
	select {
	case slow := <-turn:
		return c.answered(queue, slow), nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-closed.Done():
		err = ErrClosed
	}
	c.mu.Lock()
	select {
	case slow := <-turn: // at the same moment
		c.mu.Unlock()
		c.answered(queue, slow)()
		c.gone(queue)
		return nil, err
	default:
	}
	q.coming.Remove(at)
	c.admit(queue, q)
	c.mu.Unlock()
	return nil, err
}

// answered has the next one come after a rest, if this one has come though enough were there.
func (c *crowds) answered(queue string, slow bool) (came func()) {
	if !slow {
		return nothing
	}
	sent := time.Now()
	return func() {
		time.AfterFunc(rest*time.Since(sent), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			q := c.all[queue]
			q.slow = false
			c.admit(queue, q)
		})
	}
}

// gone is called once for each ticket that has come.
func (c *crowds) gone(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.all[queue]
	q.came--
	c.admit(queue, q)
}

// admit lets those come who may; c.mu is held.
func (c *crowds) admit(queue string, q *crowd) {
	if q.came <= few {
		for q.came < crowded && q.coming.Len() > 0 {
			q.call(false)
		}
	}
	if !q.slow && q.coming.Len() > 0 {
		q.slow = true
		q.call(true)
	}
	if q.came == 0 && q.coming.Len() == 0 && !q.slow {
		delete(c.all, queue)
		c.spare = q
	}
}

// call lets the first of those come who are still to come.
func (q *crowd) call(slow bool) {
	q.came++
	q.coming.Remove(q.coming.Front()).(chan bool) <- slow
}
