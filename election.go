package interlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/engine"
)

// Election chooses one leader among candidates, in the order in which they
// came. A leader that dies is followed by the next candidate.
//
// Candidates stand in a queue, each with its value. A cell has the value that a leader
// has set since, with the ID of the leader's ticket: it counts as long as that ticket leads.
type Election struct {
	c    *Client
	name string
	opts []Option
	cell cell
}

// Election makes an election.
func (c *Client) Election(name string, opts ...Option) *Election {
	return &Election{c, name, opts, c.cell("leader", name)}
}

// Candidate is the lock that the leader holds. value is what observers see of
// this candidate, such as its address, in at most 4096 bytes.
func (e *Election) Candidate(value string) *Lock {
	return e.c.lock(driver.Election, e.name, 1, 1, append(e.opts[:len(e.opts):len(e.opts)], Note(value)))
}

// Campaign waits until this candidate leads, and returns its lease, whose
// Release resigns.
func (e *Election) Campaign(ctx context.Context, value string) (*Lease, error) {
	return e.Candidate(value).Acquire(ctx)
}

// Lead campaigns, calls f while it leads, resigns when f returns, and returns
// f's error. The context that f gets carries the lease ([LeaseFrom]), and ends when the
// leadership is lost; once f has returned, Lead campaigns again. Lead ends when f returns
// while it leads, or when ctx ends.
func (e *Election) Lead(ctx context.Context, value string, f func(context.Context) error) error {
	return e.LeadWhile(ctx, value, nil, f)
}

// LeadWhile is Lead of a candidate that may be unfit to lead: one that cannot reach what it needs, or whose
// work makes no progress. It calls healthy before it campaigns, and every third of the TTL while it leads. When that
// returns an error, or has not returned within a TTL, the leadership is lost: the context of f ends
// with ErrLost as its cause, which names the error. The next candidate leads when f has returned, or a TTL later at
// most. LeadWhile campaigns again, behind the others, when f has returned and healthy returns nil.
//
// The context of healthy ends after a TTL, and with ctx. A call that does not heed it is left behind, and
// may still run when the next one begins. Without healthy (nil) this is Lead.
func (e *Election) LeadWhile(ctx context.Context, value string, healthy, f func(context.Context) error) error {
	for {
		for healthy != nil && e.health(ctx, healthy) != nil && e.rest(ctx) == nil {
			continue
		}
		lease, err := e.Campaign(ctx, value)
		if err != nil {
			return err
		}
		led := false // until f had returned
		err = lease.do(ctx, func(ctx context.Context) error {
			defer func() { led = lease.Err() == nil }()
			if healthy != nil {
				var beside sync.WaitGroup
				defer beside.Wait() // before the release: the next lease may be of the same ticket
				asking, stop := context.WithCancel(ctx)
				defer stop()
				beside.Go(func() { e.lookAfter(asking, lease, healthy) })
			}
			return f(ctx)
		})
		if led || !errors.Is(lease.Err(), ErrLost) || ctx.Err() != nil {
			return err
		}
	}
}

// lookAfter gives the leadership up when the leader is not healthy any more.
func (e *Election) lookAfter(ctx context.Context, lease *Lease, healthy func(context.Context) error) {
	for e.rest(ctx) == nil {
		if err := e.health(ctx, healthy); err != nil && ctx.Err() == nil {
			e.leaseIn(lease).Lose(fmt.Errorf("the leader is not healthy: %w", err))
			return
		}
	}
}

// rest lasts until health is asked for again, or fails when ctx ends.
func (e *Election) rest(ctx context.Context) error { return backoff.Sleep(ctx, e.c.TTL()/3) }

// health calls healthy, and waits for it no longer than until ctx or a TTL is over.
func (e *Election) health(ctx context.Context, healthy func(context.Context) error) error {
	ttl := e.c.TTL()
	ctx, cancel := context.WithTimeoutCause(ctx, ttl, fmt.Errorf("its check has not returned within %v", ttl))
	defer cancel()
	said := make(chan error, 1)
	go func() { said <- healthy(ctx) }()
	select {
	case err := <-said:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const maxLeaderValue = 32 << 10

// SetValue changes what observers see of the leader, in at most 32 KiB. l is the leader's lease (in the function
// of Lead: [LeaseFrom]). [Election.Leader] and [Election.Observe] tell the new value;
// inspection ([Admin.Queue]) goes on showing the one that the leader campaigned with. An error that
// wraps ErrLost: it leads no more, and nobody sees the value. While the backend cannot be
// reached it waits, until ctx or the lease ends; after half a minute without an answer
// whether the value was changed is not known.
func (e *Election) SetValue(ctx context.Context, l *Lease, value string) error {
	return e.cell.fail("set the value of", e.setValue(ctx, l, value))
}

// leading is the value of an election's cell, in JSON.
type leading struct {
	Ticket string `json:"ticket"`
	Token  uint64 `json:"token"` // of the ticket
	Value  []byte `json:"value"`
}

func leadingIn(c driver.Cell) (now leading, err error) {
	if c.Exists {
		if err := json.Unmarshal(c.Value, &now); err != nil {
			return now, fmt.Errorf("the stored value of the leader: %w", err)
		}
	}
	return now, nil
}

// setValue is atomic, and for the leader alone: a leader that has lost its lease without knowing
// finds the larger token of the next one, or sets what nobody looks at.
func (e *Election) setValue(ctx context.Context, l *Lease, value string) error {
	own := e.leaseIn(l)
	switch {
	case own == nil:
		return driver.Invalid(errors.New("the lease is not one of this election"))
	case len(value) > maxLeaderValue:
		return driver.Invalid(fmt.Errorf("a value of %d bytes: at most %d are possible", len(value), maxLeaderValue))
	}
	held, free := leaseOf(own).Bind(ctx)
	defer free()
	_, err := e.cell.change(held, func(got driver.Cell) (driver.Swap, error) {
		was, err := leadingIn(got)
		switch {
		case err != nil:
			return driver.Swap{}, err
		case was.Token > own.BackendToken():
			return driver.Swap{}, fmt.Errorf("%w: another leads", ErrLost)
		}
		data, err := json.Marshal(leading{own.Ticket(), own.BackendToken(), []byte(value)})
		return driver.Swap{Value: data}, err
	})
	switch over := own.Err(); {
	case over == nil:
		return err
	case errors.Is(over, ErrLost):
		return over
	default: // it was released
		return fmt.Errorf("%w: %w", ErrLost, over)
	}
}

// leaseIn is the lease of this election, which may be a part of l; nil if it is not.
func (e *Election) leaseIn(l *Lease) *engine.Lease {
	if l == nil {
		return nil
	}
	for _, p := range l.held.Parts() {
		if o := leaseOf(p).lock; o.c == e.c && o.cfg.Kind == driver.Election && o.cfg.Name == e.name {
			return p
		}
	}
	return nil
}

// Leader returns who leads now, with its value as Note; [ErrNoLeader] if nobody does. One that
// has died leads until the backend has noticed, for a TTL at most. While the backend cannot be
// reached it waits, until ctx ends.
func (e *Election) Leader(ctx context.Context) (Member, error) {
	m, err := e.leader(ctx)
	if err == nil && m.ID == "" {
		err = ErrNoLeader
	}
	return m, e.cell.fail("find the leader of", err)
}

func (e *Election) leader(ctx context.Context) (m Member, err error) {
	got, err := e.cell.load(ctx)
	if err != nil {
		return m, err
	}
	q, err := e.c.look(ctx, e.name)
	if err != nil {
		return m, err
	}
	return e.leaderIn(got, q)
}

// leaderIn returns a Member without ID if nobody leads. The value was read first: what the leader
// has set by then counts, since it leads still.
func (e *Election) leaderIn(got driver.Cell, q driver.Queue) (m Member, err error) {
	set, err := leadingIn(got)
	if err != nil {
		return m, err
	}
	if now := e.c.inspect(q); len(now.Holders) > 0 {
		m = now.Holders[0]
	}
	if m.ID != "" && m.ID == set.Ticket {
		m.Note = string(set.Value)
	}
	return m, nil
}

// Observe yields the leader, with its value as Note, and again after every change of leader or
// value; changes that follow each other fast may be skipped, never the last. A Member without
// ID means that nobody leads. It ends with ctx, without an error, or after an
// error. While the backend cannot be reached it waits.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		last := Member{ID: "?"}
		err := until(ctx, e.cell, e.leaderIn, func(_ context.Context, m Member) (stop bool, err error) {
			if m.ID == last.ID && m.Note == last.Note {
				return false, nil
			}
			last = m
			return !yield(m, nil), nil
		})
		if err != nil && ctx.Err() == nil {
			yield(Member{}, e.cell.fail("observe", err))
		}
	}
}
