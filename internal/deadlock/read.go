package deadlock

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/record"
)

// Backend is what Find needs of one client. While a backend cannot be reached, its methods wait, until ctx ends.
type Backend interface {
	// Queues reads the queues whose names begin with prefix.
	Queues(ctx context.Context, prefix string) ([]driver.Queue, error)

	// Look reads one queue.
	Look(ctx context.Context, queue string) (driver.Queue, error)

	// Revoke asks for a ticket. Without that ticket it succeeds, too.
	Revoke(ctx context.Context, queue, id string) error

	// Names reports whether the lock of a queue has a name at this client.
	Names(queue string) bool
}

// Wait is a wait, as its last record tells of it.
type Wait struct {
	Record
	At    Backend // that has read it; of several of one backend one that names the lock
	Owner string

	in     string // the queue of the record
	ticket string // of the record
}

// queueRef is a queue of a backend.
type queueRef struct {
	at    Backend
	queue string
}

func (w *Wait) queue() queueRef { return queueRef{w.At, w.Queue} }

// waits are those of some clients, by their IDs.
type waits map[string]*Wait

// Find finds deadlocks among the locks of these backends. What it returns is certain: at one moment after the call
// has begun, all these waits went on, and all that they hold was held. Of cycles that have a wait in common one is
// returned. They are sorted by their oldest waits, with which each begins.
func Find(ctx context.Context, backends []Backend) ([]Cycle, error) {
	all := waits{}
	for _, at := range backends {
		queues, err := at.Queues(ctx, record.Waits)
		if err != nil {
			return nil, err
		}
		for _, q := range queues {
			all.add(at, q)
		}
	}
	first, err := all.queues(ctx)
	if err != nil {
		return nil, err
	}
	suspects := all.stuck(first)
	if len(suspects) == 0 {
		return nil, nil
	}
	if suspects, err = suspects.confirm(ctx, first); err != nil {
		return nil, err
	}
	second, err := suspects.queues(ctx)
	if err != nil {
		return nil, err
	}
	both := standing(first, second)
	return suspects.stuck(both).cycles(both), nil
}

// add reads a queue of records.
func (all waits) add(at Backend, q driver.Queue) {
	for _, m := range q.Members {
		w := &Wait{At: at, Owner: m.Owner, in: q.Name, ticket: m.ID}
		if json.Unmarshal(m.Note, &w.Record) != nil || record.Beside(record.Waits, w.Queue) != q.Name ||
			driver.CheckName(w.Queue) != nil || driver.CheckID(w.ID) != nil || w.Units < 1 {
			continue // no Waiter has written it
		}
		last := all[w.ID]
		if last != nil && (last.At.Names(w.Queue) || !at.Names(w.Queue)) {
			w.At = last.At
		}
		if last == nil || last.Number < w.Number {
			all[w.ID] = w
		} else {
			last.At = w.At
		}
	}
}

// queues reads all queues that are waited for.
func (all waits) queues(ctx context.Context) (map[queueRef]driver.Queue, error) {
	return all.read(ctx, (*Wait).queue)
}

// read reads the queues that have to do with the waits in this way, each once.
func (all waits) read(ctx context.Context, of func(*Wait) queueRef) (map[queueRef]driver.Queue, error) {
	read := map[queueRef]driver.Queue{}
	for _, w := range all {
		at := of(w)
		if _, ok := read[at]; ok {
			continue
		}
		q, err := at.at.Look(ctx, at.queue)
		if err != nil {
			return nil, err
		}
		read[at] = q
	}
	return read, nil
}

// standing is what has stood from one reading to the next: tickets that wait in both, or are held in
// both, for an ID is never used twice, and a ticket that is held never waits again.
func standing(first, second map[queueRef]driver.Queue) map[queueRef]driver.Queue {
	both := map[queueRef]driver.Queue{}
	for at, q := range second {
		was := map[string]bool{}
		for _, m := range first[at].Members {
			was[m.ID] = m.Held
		}
		q.Capacity = max(q.Capacity, first[at].Capacity)
		q.Members = slices.DeleteFunc(slices.Clone(q.Members), func(m driver.Member) bool {
			held, stood := was[m.ID]
			return !stood || held != m.Held
		})
		both[at] = q
	}
	return both
}

// confirm asks the suspects whether they still wait, and returns those that do, and are stuck: all of
// them waited at the moment at which confirm was called. The first record that comes from a wait after
// that may have been on its way since before. The second one was made when the first had arrived.
func (suspects waits) confirm(ctx context.Context, first map[queueRef]driver.Queue) (waits, error) {
	base, err := suspects.again(ctx)
	if err != nil {
		return nil, err
	}
	limit := time.Now().Add(base.patience())
	asked := map[string]bool{} // by the ticket of the record
	b := backoff.Backoff{Most: 200 * time.Millisecond}
	for now := base; ; {
		now = now.stuck(first)
		silent := maps.Clone(now)
		maps.DeleteFunc(silent, func(id string, w *Wait) bool { return w.Number >= base[id].Number+answers })
		switch {
		case len(silent) == 0:
			return now, nil
		case time.Now().After(limit):
			maps.DeleteFunc(now, func(id string, _ *Wait) bool { return silent[id] != nil })
			return now.stuck(first), nil
		}
		for _, w := range silent {
			if asked[w.ticket] {
				continue
			}
			asked[w.ticket] = true
			if err := w.At.Revoke(ctx, w.in, w.ticket); err != nil {
				return nil, err
			}
		}
		if err := b.Sleep(ctx); err != nil {
			return nil, err
		}
		if now, err = now.again(ctx); err != nil {
			return nil, err
		}
	}
}

// answers is how many records have to come from a suspect.
const answers = 2

// patience is how long the suspects have for their answers. Where a backend sends no signals at once, each
// answer takes up to a third of the TTL.
func (suspects waits) patience() (d time.Duration) {
	for _, w := range suspects {
		d = max(d, min(w.TTL, time.Minute))
	}
	return d + time.Second
}

// again reads the last records of these waits; those that are over are left out.
func (suspects waits) again(ctx context.Context) (waits, error) {
	read, err := suspects.read(ctx, func(w *Wait) queueRef { return queueRef{w.At, w.in} })
	if err != nil {
		return nil, err
	}
	now := waits{}
	for ref, q := range read {
		q.Name = ref.queue
		now.add(ref.at, q)
	}
	maps.DeleteFunc(now, func(id string, _ *Wait) bool { return suspects[id] == nil })
	for id, w := range now {
		w.At = suspects[id].At
	}
	return now, nil
}
