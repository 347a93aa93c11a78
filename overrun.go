package interlock

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/oneline"
	"github.com/interlock-go/interlock/internal/record"
)

// Overrun is work of a client that goes on though its lease was lost (see [Client.Overruns]), as
// long as that client reaches the backend.
type Overrun struct {
	ID    string    `json:"id"` // of the ticket that was lost
	Owner string    `json:"owner"`
	Note  string    `json:"note"`
	Units int64     `json:"units"`
	Token uint64    `json:"token,string"`   // of the lease
	Since time.Time `json:"since,omitzero"` // when it was lost; zero if the backend has no such time
}

// overrunsIn reads the records of a lock, or of several locks, by the names of their queues.
func overrunsIn(q driver.Queue, found map[string]Queue) {
	for _, m := range q.Members {
		var r record.Overrun
		if json.Unmarshal(m.Note, &r) != nil || record.Beside(record.Overruns, r.Queue) != q.Name || driver.CheckID(r.Ticket) != nil {
			continue // nobody of this package has written it
		}
		o := Overrun{ID: r.Ticket, Owner: oneline.Cut(m.Owner, driver.MaxOwner), Note: r.Note, Units: r.Units, Token: r.Token}
		if since := dated(m.Since); !since.IsZero() {
			o.Since = dated(since.Add(-r.Age))
		}
		of, ok := found[r.Queue]
		if !ok {
			of = Queue{Name: r.Queue, Kind: oneline.Cut(r.Kind, driver.MaxOwner), Capacity: r.Capacity, Holders: []Member{}, Waiters: []Member{}}
		}
		of.Overruns = append(of.Overruns, o)
		found[r.Queue] = of
	}
}

// records lists the locks below a prefix that are overrun, in the order of their names.
func (c *Client) records(ctx context.Context, prefix string) ([]Queue, error) {
	found := map[string]Queue{}
	for q, err := range c.e.Driver().Queues(ctx, record.Overruns) {
		if driver.IsPermanent(err) {
			break // whoever may not read the records, or one of them, sees the locks all the same
		}
		if err != nil {
			return nil, err
		}
		overrunsIn(q, found)
	}
	var all []Queue
	for name, q := range found {
		if strings.HasPrefix(name, prefix) {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// overrunBy adds the records of the lock to what is known of it.
func (q Queue) overrunBy(key string, records driver.Queue) Queue {
	found := map[string]Queue{}
	overrunsIn(records, found)
	of := found[key]
	if q.Kind == "" { // it is free
		q.Kind, q.Capacity = of.Kind, of.Capacity
	}
	q.Overruns = of.Overruns
	return q
}

// shown is a queue of records as the user of this client knows it.
func (c *Client) shown(q Queue) Queue {
	q.Name = strings.TrimPrefix(q.Name, c.cfg.prefix)
	return q
}

// recordsOf borrows the retries of cells for the records of a lock's overruns.
func (c *Client) recordsOf(name string) cell {
	return cell{c: c, name: name, key: record.Beside(record.Overruns, c.cfg.prefix+name)}
}

// lookAtBoth reads a lock and its records once. Whoever may not read the records sees the lock all the same.
func (c *Client) lookAtBoth(ctx context.Context, name string) (both [2]driver.Queue, err error) {
	if both[0], err = c.look(ctx, name); err != nil {
		return both, err
	}
	if both[1], err = c.recordsOf(name).look(ctx); driver.IsPermanent(err) {
		both[1], err = driver.Queue{}, nil
	}
	return both, err
}

// followBoth follows a lock and its records. Whoever may not read the records follows the lock alone.
// The first state is a look: what is followed costs the backend more at each change, and some go on with
// that for a while after the caller has gone.
func (c *Client) followBoth(ctx context.Context, name string) iter.Seq2[[2]driver.Queue, error] {
	type news struct {
		of  int
		q   driver.Queue
		err error
	}
	return func(yield func([2]driver.Queue, error) bool) {
		var readers sync.WaitGroup
		defer readers.Wait()
		outer := ctx
		ctx, cancel := c.untilClosed(outer)
		defer cancel()
		fail := func(err error) {
			if outer.Err() == nil {
				yield([2]driver.Queue{}, err)
			}
		}
		both, err := c.lookAtBoth(ctx, name)
		if err != nil {
			fail(err)
			return
		}
		if !yield(both, nil) {
			return
		}
		all := make(chan news)
		for i, v := range [2]cell{c.named(name), c.recordsOf(name)} {
			q := both[i]
			readers.Go(func() {
				for err := error(nil); err == nil; {
					q, err = v.follow(ctx, q.Version)
					select {
					case all <- news{i, q, err}:
					case <-ctx.Done():
						return
					}
				}
			})
		}
		for {
			select {
			case n := <-all:
				both[n.of] = n.q
				if n.of == 1 && driver.IsPermanent(n.err) {
					continue
				}
				if n.err != nil {
					fail(n.err)
					return
				}
				if !yield(both, nil) {
					return
				}
			case <-ctx.Done():
				fail(ErrClosed) // unless it is the end of the context
				return
			}
		}
	}
}
