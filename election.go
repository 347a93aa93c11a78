package interlock

import (
	"context"
	"errors"
	"iter"

	"github.com/interlock-go/interlock/driver"
)

// Election chooses one leader among candidates, in the order in which they
// came. A leader that dies is followed by the next candidate.
type Election struct {
	c    *Client
	name string
	opts []Option
}

// Election makes an election.
func (c *Client) Election(name string, opts ...Option) *Election {
	return &Election{c, name, opts}
}

// Candidate is the lock that the leader holds. value is what observers see of
// this candidate, such as its address.
func (e *Election) Candidate(value string) *Lock {
	return e.c.lock(driver.Election, e.name, 1, 1, append(e.opts[:len(e.opts):len(e.opts)], Note(value)))
}

// Campaign waits until this candidate leads, and returns its lease, whose
// Release resigns.
func (e *Election) Campaign(ctx context.Context, value string) (*Lease, error) {
	return e.Candidate(value).Acquire(ctx)
}

// Lead campaigns, calls f while it leads, resigns when f returns, and returns
// f's error. When the leadership is lost, f's context ends; once f has
// returned, Lead campaigns again. It ends when f returns while it leads, or
// when ctx ends.
func (e *Election) Lead(ctx context.Context, value string, f func(context.Context) error) error {
	for {
		lease, err := e.Campaign(ctx, value)
		if err != nil {
			return err
		}
		led := false // until f had returned
		err = lease.do(ctx, func(ctx context.Context) error {
			defer func() { led = lease.Err() == nil }()
			return f(ctx)
		})
		if led || !errors.Is(lease.Err(), ErrLost) || ctx.Err() != nil {
			return err
		}
	}
}

// Observe yields the leader, and again after every change of leader; changes
// that follow each other fast may be skipped, never the last. A Member without
// ID means that nobody leads. It ends with ctx, without an error, or after an
// error.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		last := "?"
		for q, err := range e.c.Follow(ctx, e.name) {
			if err != nil {
				yield(Member{}, err)
				return
			}
			var leader Member
			if len(q.Holders) > 0 {
				leader = q.Holders[0]
			}
			if leader.ID == last {
				continue
			}
			last = leader.ID
			if !yield(leader, nil) {
				return
			}
		}
	}
}
