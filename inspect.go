package interlock

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/engine"
	"github.com/interlock-go/interlock/internal/oneline"
	"github.com/interlock-go/interlock/internal/record"
)

// Member is somebody who holds a lock or waits for it. Texts that are longer than any client of this
// package writes, such as a note of more than 4096 bytes, are cut, and end with "…". In JSON a token
// is a decimal string, since it does not fit the numbers of many readers.
type Member struct {
	ID    string    `json:"id"`                    // of the ticket, for Adopt, Evict and Revoke
	Owner string    `json:"owner"`                 // host:pid, unless the client was told otherwise
	Note  string    `json:"note"`                  // as given with Note, or a candidate's value
	Units int64     `json:"units"`                 // permits; of a read-write lock 1 is a reader
	Token uint64    `json:"token,string,omitzero"` // of a holder's first lease; 0 while waiting
	Since time.Time `json:"since,omitzero"`        // when it asked for the lock; zero if the backend has no such time
	Until time.Time `json:"until,omitzero"`        // when it is over unless it is renewed; zero if that is not known
	Fixed bool      `json:"fixed"`                 // it is not renewed, but ends at Until
	At    string    `json:"at,omitempty"`          // of a quorum: the members that keep a place for one that does not hold

	// Foreign: it is of another library. Until is not known unless it is Fixed, and
	// Evict without force only asks a holder, who may not listen. The lock passes on when it
	// is released, or its program has ended.
	Foreign bool `json:"foreign,omitempty"`
}

// Queue is a snapshot of a lock: who holds it and who waits, in order.
type Queue struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind,omitempty"` // mutex, rwmutex, semaphore, election or barrier
	Capacity   int64    `json:"capacity,omitempty"`
	PermitsSet bool     `json:"-"` // Capacity is what [Admin.SetPermits] has set
	Holders    []Member `json:"holders"`
	Waiters    []Member `json:"waiters"`

	// Overruns is work that goes on though its lease was lost, also of a lock that is free.
	Overruns []Overrun `json:"overruns,omitempty"`

	// Paused: until then nothing is granted, since the backend has lost its locks. Zero if it grants.
	Paused time.Time `json:"paused_until,omitzero"`
}

func (c *Client) inspect(q driver.Queue) Queue {
	out := Queue{Name: strings.TrimPrefix(q.Name, c.cfg.prefix), Kind: oneline.Cut(q.Kind, driver.MaxOwner), Capacity: q.Capacity, PermitsSet: q.Resized, Holders: []Member{}, Waiters: []Member{}}
	age := c.e.Driver().Now().Sub(q.Read)
	now := time.Now()
	if left, why := c.e.Paused(); why != nil {
		out.Paused = now.Add(left)
	}
	for _, m := range q.Members {
		member := Member{
			ID: oneline.Cut(m.ID, driver.MaxOwner), Owner: oneline.Cut(m.Owner, driver.MaxOwner), Note: oneline.Cut(m.Note, driver.MaxNote), Units: m.Units, Token: m.Token << engine.TokenBits,
			Since: dated(m.Since), Fixed: m.Fixed, At: m.At, Foreign: m.Foreign,
		}
		if m.Fixed || !m.Foreign {
			member.Until = now.Add(m.Left - age)
		}
		if m.Held {
			out.Holders = append(out.Holders, member)
		} else {
			out.Waiters = append(out.Waiters, member)
		}
	}
	return out
}

// dated is a time that can be written in JSON, in any zone; zero if it was none.
func dated(t time.Time) time.Time {
	if y := t.Year(); y < 1 || y > 9998 {
		return time.Time{}
	}
	return t
}

// Queues yields the locks that somebody holds or waits for, whose names begin
// with prefix, in the order of their names, and those that nobody holds though work of a lost lease
// goes on. A backend that fails ends it with an error; one that does not answer is waited for until
// ctx ends.
func (a Admin) Queues(ctx context.Context, prefix string) iter.Seq2[Queue, error] {
	return func(yield func(Queue, error) bool) {
		late, err := a.c.records(ctx, a.c.cfg.prefix+prefix)
		if err != nil {
			yield(Queue{}, failed("list", prefix, err))
			return
		}
		var left error // is said last: what cannot be read hides no other
		for q, err := range a.c.e.Driver().Queues(ctx, a.c.cfg.prefix+prefix) {
			if left = err; err != nil {
				break
			}
			for len(late) > 0 && late[0].Name < q.Name {
				if !yield(a.c.shown(late[0]), nil) {
					return
				}
				late = late[1:]
			}
			if record.IsReserved(q.Name) {
				continue
			}
			out := a.c.inspect(q)
			if len(late) > 0 && late[0].Name == q.Name {
				out.Overruns, late = late[0].Overruns, late[1:]
			}
			if !yield(out, nil) {
				return
			}
		}
		for _, q := range late {
			if !yield(a.c.shown(q), nil) {
				return
			}
		}
		if left != nil {
			yield(Queue{}, failed("list", prefix, left))
		}
	}
}

// Stored is a value, a latch or a barrier.
type Stored struct {
	Name string
	Kind string // value, latch or barrier
}

// Stored yields the values that exist and the latches and barriers that are set, whose names
// begin with prefix, in the order of their names; of one name in the order of their kinds. A
// backend that fails ends it with an error; one that does not answer is waited for until ctx
// ends.
func (a Admin) Stored(ctx context.Context, prefix string) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		var all []Stored
		var left error // as in Queues
		for key, err := range a.c.e.Driver().Cells(ctx, a.c.cfg.prefix+prefix) {
			if left = err; err != nil {
				break
			}
			name, kind := storedAs(strings.TrimPrefix(key, a.c.cfg.prefix))
			if kind != "" && strings.HasPrefix(name, prefix) {
				all = append(all, Stored{name, kind})
			}
		}
		slices.SortFunc(all, func(a, b Stored) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind)) })
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
		if left != nil {
			yield(Stored{}, failed("list", prefix, left))
		}
	}
}

// storedAs splits the name of a cell. Rounds are of double barriers alone.
func storedAs(cell string) (name, kind string) {
	i := strings.LastIndexByte(cell, '/')
	if i < 0 {
		return "", ""
	}
	switch kind = cell[i+1:]; kind {
	case "value", "latch", "barrier":
		return cell[:i], kind
	}
	return "", ""
}

// Follow yields the lock's state, and again after every change; states that
// follow each other fast may be skipped, never the last. It ends with ctx,
// without an error, or after an error. While the backend cannot be reached it waits.
func (a Admin) Follow(ctx context.Context, name string) iter.Seq2[Queue, error] {
	return func(yield func(Queue, error) bool) {
		for both, err := range a.c.followBoth(ctx, name) {
			if err != nil {
				yield(Queue{}, failed("follow", name, err))
				return
			}
			if !yield(a.c.inspect(both[0]).overrunBy(a.c.cfg.prefix+name, both[1]), nil) {
				return
			}
		}
	}
}

// FollowAll yields what Queues does as one list, and again when one of the locks has changed. Backends tell of
// changes of one lock, not of all: they are read once a second at most, and for a tenth of the time at most,
// so that a change is seen that much later, and what begins and ends in between is not. It ends with ctx, without an
// error, or after an error. While the backend cannot be reached it waits.
func (a Admin) FollowAll(ctx context.Context, prefix string) iter.Seq2[[]Queue, error] {
	return func(yield func([]Queue, error) bool) {
		var last []Queue // nil: none was yielded
		for all, err := range backoff.Often(ctx, func(ctx context.Context) ([]Queue, error) { return a.all(ctx, prefix) }) {
			if err == nil && last != nil && slices.EqualFunc(all, last, Queue.Same) {
				continue
			}
			if !yield(all, err) || err != nil {
				return
			}
			last = all
		}
	}
}

func (a Admin) all(ctx context.Context, prefix string) ([]Queue, error) {
	all := []Queue{}
	for q, err := range a.Queues(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	return all, nil
}

// Same reports whether o differs from q in times only, such as by a renewal. A pause that begins or ends is more than
// that.
func (q Queue) Same(o Queue) bool {
	same := func(m, n Member) bool {
		m.Since, m.Until, n.Since, n.Until = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		return m == n
	}
	return q.Name == o.Name && q.Kind == o.Kind && q.Capacity == o.Capacity && q.PermitsSet == o.PermitsSet &&
		q.Paused.IsZero() == o.Paused.IsZero() && slices.EqualFunc(q.Holders, o.Holders, same) && slices.EqualFunc(q.Waiters, o.Waiters, same) &&
		slices.EqualFunc(q.Overruns, o.Overruns, func(m, n Overrun) bool { return m.ID == n.ID })
}

// Queue returns the lock's state as it is now. One that nobody holds and nobody waits for has
// no Kind, unless its permits were set. While the backend cannot be reached it waits, until ctx ends.
func (a Admin) Queue(ctx context.Context, name string) (Queue, error) {
	both, err := a.c.lookAtBoth(ctx, name)
	if err != nil {
		return Queue{}, failed("look at", name, err)
	}
	out := a.c.inspect(both[0])
	out.Name = name
	return out.overrunBy(a.c.cfg.prefix+name, both[1]), nil
}

// look reads a queue once.
func (c *Client) look(ctx context.Context, name string) (driver.Queue, error) {
	return c.named(name).look(ctx)
}

func (v cell) look(ctx context.Context) (q driver.Queue, err error) {
	err = v.request(ctx, func(ctx context.Context) (err error) {
		q, err = v.c.e.Driver().Follow(ctx, v.key, "")
		return err
	})
	return q, err
}

// follow reads a queue as soon as it differs from the state with version after.
func (v cell) follow(ctx context.Context, after string) (q driver.Queue, err error) {
	err = v.retry(ctx, func(ctx context.Context) (err error) {
		q, err = v.c.e.Driver().Follow(ctx, v.key, after)
		return err
	})
	return q, err
}

// named borrows the retries of cells for a queue.
func (c *Client) named(name string) cell {
	key := c.cfg.prefix + name
	return cell{c: c, name: name, key: key, err: c.checkName(name)}
}
