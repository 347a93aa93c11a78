package interlock

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// told is a wait, as its last record tells of it.
type told struct {
	waitRecord
	c      *Client // that has read it
	in     string  // the queue of the record
	record string  // the ID of its ticket
	owner  string
}

// place is a queue of a backend.
type place struct {
	c     *Client
	queue string
}

func (w *told) place() place { return place{w.c, w.Queue} }

// waits are those of some clients, by their IDs.
type waits map[string]*told

// readWaits reads all records of waits.
func readWaits(ctx context.Context, clients []*Client) (waits, error) {
	all := waits{}
	for _, c := range clients {
		err := cell{c: c}.retry(ctx, func(ctx context.Context) error {
			for q, err := range c.d.Queues(ctx, waitPrefix) {
				if err != nil {
					return err
				}
				for _, m := range q.Members {
					all.add(c, q.Name, m)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (all waits) add(c *Client, in string, m driver.Member) {
	w := told{c: c, in: in, record: m.ID, owner: cut(m.Owner, driver.MaxOwner)}
	if json.Unmarshal(m.Note, &w.waitRecord) != nil || beside(waitPrefix, w.Queue) != in || driver.CheckName(w.Queue) != nil || driver.CheckID(w.ID) != nil || w.Units < 1 {
		return // nobody of this package has written it
	}
	known := all[w.ID]
	if known != nil && (w.isOutside() || !known.isOutside()) {
		c = known.c
	}
	if known == nil || known.Number < w.Number {
		known = &w
	}
	known.c = c // of several clients of one backend, one that can name the lock
	all[w.ID] = known
}

// name is that of the lock that is waited for, as the client that has read of the wait knows it; else the whole name.
func (w *told) name() (name string, outside bool) {
	name, within := strings.CutPrefix(w.Queue, w.c.cfg.prefix)
	if !within || name == "" {
		return w.Queue, true
	}
	return name, false
}

func (w *told) isOutside() bool {
	_, outside := w.name()
	return outside
}

// queues reads all queues that are waited for.
func (all waits) queues(ctx context.Context) (map[place]driver.Queue, error) {
	return all.read(ctx, (*told).place)
}

// read reads the queues that have to do with the waits in this way, each once.
func (all waits) read(ctx context.Context, of func(*told) place) (map[place]driver.Queue, error) {
	read := map[place]driver.Queue{}
	for _, w := range all {
		at := of(w)
		if _, ok := read[at]; ok {
			continue
		}
		q, err := cell{c: at.c, key: at.queue}.look(ctx)
		if err != nil {
			return nil, err
		}
		read[at] = q
	}
	return read, nil
}

// standing is what has stood from one reading to the next: tickets that wait in both, or are held in
// both, for an ID is never used twice, and a ticket that is held never waits again.
func standing(first, second map[place]driver.Queue) map[place]driver.Queue {
	both := map[place]driver.Queue{}
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
func (suspects waits) confirm(ctx context.Context, first map[place]driver.Queue) (waits, error) {
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
		maps.DeleteFunc(silent, func(id string, w *told) bool { return w.Number >= base[id].Number+answers })
		switch {
		case len(silent) == 0:
			return now, nil
		case time.Now().After(limit):
			maps.DeleteFunc(now, func(id string, _ *told) bool { return silent[id] != nil })
			return now.stuck(first), nil
		}
		for _, w := range silent {
			if asked[w.record] {
				continue
			}
			asked[w.record] = true
			if err := w.ask(ctx); err != nil {
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
	read, err := suspects.read(ctx, func(w *told) place { return place{w.c, w.in} })
	if err != nil {
		return nil, err
	}
	now := waits{}
	for at, q := range read {
		for _, m := range q.Members {
			now.add(at.c, at.queue, m)
		}
	}
	maps.DeleteFunc(now, func(id string, _ *told) bool { return suspects[id] == nil })
	for id, w := range now {
		w.c = suspects[id].c
	}
	return now, nil
}

// ask has the waiter make another record.
func (w *told) ask(ctx context.Context) error {
	return cell{c: w.c}.request(ctx, func(ctx context.Context) error {
		err := w.c.d.Ask(ctx, w.in, w.record, driver.Revoke)
		if isGone(err) {
			return nil // there is another one, or the wait is over
		}
		return err
	})
}
