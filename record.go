package interlock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/deadlock"
)

// A record tells other clients what the tickets of a lock do not: that work overruns, or what the
// caller of a wait holds (see package deadlock). The client stands in a queue beside the lock's, in which nobody waits. Its
// ticket there is renewed with all others, and ends with the client. Its note is what is told.
// While the backend cannot be reached there is no record, and nothing waits for one.

// overrunPrefix is what the names of the queues of such records of overruns begin with. Names of locks do not.
const overrunPrefix = "~overrun/"

// isReserved reports a name that only this package uses.
func isReserved(name string) bool {
	return strings.HasPrefix(name, overrunPrefix) || strings.HasPrefix(name, deadlock.Prefix)
}

var errReserved = driver.Invalid(fmt.Errorf("names that begin with %q or %q are reserved", overrunPrefix, deadlock.Prefix))

// record is the note of a record, in JSON.
type record struct {
	Queue    string        `json:"queue"`
	Kind     driver.Kind   `json:"kind"`
	Capacity int64         `json:"capacity"`
	Ticket   string        `json:"ticket"`
	Units    int64         `json:"units"`
	Token    uint64        `json:"token,string"` // of the lease
	Age      time.Duration `json:"age"`          // of the overrun, in nanoseconds, when the record was made
	Note     string        `json:"note,omitempty"`
}

// mostRecorded is how much of a lock's note is recorded, in bytes.
const mostRecorded = 1024

func (r record) note() []byte {
	b, err := json.Marshal(r)
	if err != nil || len(b) > driver.MaxNote {
		r.Note = ""
		b, _ = json.Marshal(r)
	}
	return b
}

// record keeps a record of the ticket's overrun until the result is called: one for all leases
// of the ticket.
func (t *ticket) record(token uint64, since driver.Instant) (stop func()) {
	t.q.mu.Lock()
	defer t.q.unlock()
	if t.recorded++; t.recorded == 1 {
		r := record{
			Queue: t.req.Queue, Kind: t.req.Kind, Capacity: t.req.Capacity, Ticket: t.req.ID, Units: t.units, Token: token,
			Note: cut(t.req.Note, mostRecorded),
		}
		ctx, cancel := context.WithCancel(t.c.ctx)
		t.unrecord = cancel
		t.c.background(func() {
			t.c.keepRecord(ctx, r.Queue, deadlock.Beside(overrunPrefix, r.Queue), func(int) []byte {
				r.Age = t.c.d.Now().Sub(since)
				return r.note()
			})
		})
	}
	return func() {
		t.q.mu.Lock()
		defer t.q.unlock()
		if t.recorded--; t.recorded == 0 {
			t.unrecord()
		}
	}
}

// keepRecord keeps a ticket in a queue of records until ctx ends. It goes on trying, unless the
// backend refuses for good. Whoever asks for the ticket ([Admin.Revoke]) gets another one, which is
// there before the first leaves. note is told how many there have been.
func (c *Client) keepRecord(ctx context.Context, name, queue string, note func(made int) []byte) {
	l := &Lock{c: c, name: name, queue: queue, kind: driver.Barrier, units: 1, capacity: driver.RWCapacity}
	b := backoff.Backoff{Most: c.TTL()}
	made := 0
	var t, last *ticket
	q := c.queue(queue)
	defer q.leave()
	defer func() { last.giveUpPlace(); t.giveUpPlace() }()
	for ctx.Err() == nil {
		if t == nil {
			var err error
			if t, err = l.newTicket(ctx, q, nil, true); err != nil {
				return
			}
			t.isRecord()
		}
		t.req.Note = note(made) // that of the Join that takes effect counts
		err := t.reach(ctx)
		switch {
		case err == nil:
			b = backoff.Backoff{Most: c.TTL()}
			made++
			last.giveUpPlace()
			last = nil
			if !t.outlasts(ctx) {
				last, t = t, nil // it was lost with its session, or somebody has removed it, or asks for it
			}
			continue
		case isSessionOver(err), isGone(err), errors.Is(err, errLate):
			t.giveUpPlace()
			t = nil
		case driver.IsPermanent(err), errors.Is(err, ErrClosed):
			return
		}
		_ = b.Sleep(ctx)
	}
}

// isRecord has the ticket's record hear of it when somebody asks for the ticket.
func (t *ticket) isRecord() {
	t.q.mu.Lock()
	defer t.q.unlock()
	t.asked = make(chan struct{}, 1)
}

// outlasts waits for the end of ctx. It reports false if the ticket of a record was lost before, or asked for.
func (t *ticket) outlasts(ctx context.Context) bool {
	const looks = 3 // in a TTL
	look := time.NewTicker(t.sess.ttl / looks)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return true
		case <-t.asked:
			return false
		case <-look.C:
		}
		t.q.mu.Lock()
		held := t.state == ticketHeld
		t.q.unlock()
		if !held {
			return false
		}
	}
}

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
		var r record
		if json.Unmarshal(m.Note, &r) != nil || deadlock.Beside(overrunPrefix, r.Queue) != q.Name || driver.CheckID(r.Ticket) != nil {
			continue // nobody of this package has written it
		}
		o := Overrun{ID: r.Ticket, Owner: cut(m.Owner, driver.MaxOwner), Note: r.Note, Units: r.Units, Token: r.Token}
		if since := dated(m.Since); !since.IsZero() {
			o.Since = dated(since.Add(-r.Age))
		}
		of, ok := found[r.Queue]
		if !ok {
			of = Queue{Name: r.Queue, Kind: cut(r.Kind, driver.MaxOwner), Capacity: r.Capacity, Holders: []Member{}, Waiters: []Member{}}
		}
		of.Overruns = append(of.Overruns, o)
		found[r.Queue] = of
	}
}

// records lists the locks below a prefix that are overrun, in the order of their names.
func (c *Client) records(ctx context.Context, prefix string) ([]Queue, error) {
	found := map[string]Queue{}
	for q, err := range c.d.Queues(ctx, overrunPrefix) {
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
	return cell{c: c, name: name, key: deadlock.Beside(overrunPrefix, c.cfg.prefix+name)}
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
