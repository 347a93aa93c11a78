package interlock

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/engine"
)

// A follower reads a cell and the queue of its name, and again after each change, for all
// calls of this client that wait there. What a change costs does not depend on how many
// calls wait.
//
//   - The queue of a look is always read after its cell.
//   - A call judges by no look that was begun before the call came: what it has done before
//     is in each look that it sees.
//   - The follower begins with the first call and ends with the last. Only an error that
//     would be the same next time ends it before, and then all calls get that error.
type follower struct {
	v      cell
	digest func(driver.Cell, driver.Queue) (any, error)
	stop   context.CancelFunc
	asked  chan struct{} // a read of both is due; capacity 1

	// Client.mu guards the rest.
	calls int    // that wait
	reads uint64 // of both, begun so far
	last  look
	news  chan struct{} // closed with the next look
	why   error         // why the last read failed, nil if it did not
}

// look is what a follower has read.
type look struct {
	number uint64 // counts looks
	read   uint64 // it was not begun before this read of both
	state  any    // what digest made of it
	err    error  // there will be no other look
}

// until calls done with what digest makes of the cell and the queue of its name, and again
// after changes, until it says true. Changes that follow each other fast may be skipped, never
// the last. All calls for one cell name the same digest, which is called once for a look.
func until[T any](ctx context.Context, v cell, digest func(driver.Cell, driver.Queue) (T, error), done func(context.Context, T) (bool, error)) error {
	if v.err != nil {
		return v.err
	}
	ctx, cancel := v.c.untilClosed(ctx)
	defer cancel()
	f := v.c.followerOf(v, func(c driver.Cell, q driver.Queue) (any, error) { return digest(c, q) })
	defer f.leave()
	due, seen := f.ask(), uint64(0)
	for {
		now, err := f.next(ctx, due, seen)
		if err != nil {
			return err
		}
		if ok, err := done(ctx, now.state.(T)); ok || err != nil {
			return err
		}
		seen = now.number
	}
}

func (c *Client) followerOf(v cell, digest func(driver.Cell, driver.Queue) (any, error)) *follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.followers[v.key]
	if f == nil {
		f = &follower{v: v, digest: digest, asked: make(chan struct{}, 1), news: make(chan struct{})}
		var ctx context.Context
		ctx, f.stop = context.WithCancel(c.e.Context())
		c.followers[v.key] = f
		c.e.Background(func() { f.end(f.run(ctx)) })
	}
	f.calls++
	return f
}

func (f *follower) leave() {
	c := f.v.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.calls--; f.calls == 0 {
		f.forget()
	}
}

// end tells all calls that there will be no other look.
func (f *follower) end(err error) {
	c := f.v.c
	c.mu.Lock()
	f.forget()
	c.mu.Unlock()
	f.tell(look{err: err})
}

// forget is called with Client.mu held.
func (f *follower) forget() {
	f.stop()
	if c := f.v.c; c.followers[f.v.key] == f {
		delete(c.followers, f.v.key)
	}
}

// ask has both be read again, and returns the number of that read.
func (f *follower) ask() uint64 {
	f.v.c.mu.Lock()
	defer f.v.c.mu.Unlock()
	select {
	case f.asked <- struct{}{}:
	default:
	}
	return f.reads + 1
}

// begin returns the number of the read that begins now, and serves all who have asked by now.
func (f *follower) begin() uint64 {
	f.v.c.mu.Lock()
	defer f.v.c.mu.Unlock()
	select {
	case <-f.asked:
	default:
	}
	f.reads++
	return f.reads
}

// next waits for a look after the one with the number seen, and not before the read that is due.
func (f *follower) next(ctx context.Context, due, seen uint64) (look, error) {
	for {
		f.v.c.mu.Lock()
		last, news, why := f.last, f.news, f.why
		f.v.c.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return look{}, f.v.c.e.Because(ctx, why)
		case last.err != nil:
			return look{}, last.err
		case last.read >= due && last.number > seen:
			return last, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
}

func (f *follower) tell(l look) {
	f.v.c.mu.Lock()
	defer f.v.c.mu.Unlock()
	l.number = f.last.number + 1
	f.last = l
	close(f.news)
	f.news = make(chan struct{})
}

// answer is what a call that waits has come to.
type answer[T any] struct {
	got  T
	err  error
	read uint64 // the last one when the call was made
}

// run reads and tells until ctx ends, or an error comes that would be the same next time.
func (f *follower) run(ctx context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// At most one call of each kind is under way.
	cells, queues := make(chan answer[driver.Cell], 1), make(chan answer[driver.Queue], 1)
	watching, following := false, false
	for {
		read := f.begin()
		cell, queue, err := f.read(ctx)
		if err == nil {
			err = f.show(read, cell, queue)
		}
		for again := false; err == nil && !again; {
			if !watching {
				watching = true
				after := cell.Version
				calls.Go(func() {
					got, err := f.v.watch(ctx, after)
					cells <- answer[driver.Cell]{got, err, read}
				})
			}
			if !following {
				following = true
				after := queue.Version
				calls.Go(func() {
					got, err := f.v.c.named(f.v.name).follow(ctx, after)
					queues <- answer[driver.Queue]{got, err, read}
				})
			}
			select {
			case <-ctx.Done():
				err = context.Cause(ctx)
			case <-f.asked:
				again = true
			case a := <-cells:
				watching, err, again = false, a.err, a.got.Version != cell.Version
			case a := <-queues:
				following, err = false, a.err
				// What was asked for before this read may be older than what the read has shown.
				if err == nil && a.read == read {
					queue = a.got
					err = f.show(read, cell, queue)
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

func (f *follower) show(read uint64, cell driver.Cell, queue driver.Queue) error {
	state, err := f.digest(cell, queue)
	if err == nil {
		f.tell(look{read: read, state: state})
	}
	return err
}

// read reads the cell and then the queue.
func (f *follower) read(ctx context.Context) (cell driver.Cell, queue driver.Queue, err error) {
	c := f.v.c
	err = f.v.retry(ctx, func(ctx context.Context) (err error) {
		defer func() { f.said(engine.Tried(err)) }()
		call := c.e.Call(ctx)
		cell, err = c.e.Driver().Load(call, f.v.key)
		call.Release()
		if err != nil {
			return err
		}
		call = c.e.Call(ctx)
		defer call.Release()
		queue, err = c.e.Driver().Follow(call, c.named(f.v.name).key, "")
		return err
	})
	return cell, queue, err
}

func (f *follower) said(err error) {
	f.v.c.mu.Lock()
	defer f.v.c.mu.Unlock()
	f.why = err
}
