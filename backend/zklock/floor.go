package zklock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// Additions to the transactions of tickets are kept in a record for each queue whose tokens were raised, and in one for
// all: children of the node floors. So garbage harms the name whose record it is in. Each raise also writes floors
// itself, whose data mean nothing. A connection watches it, and after a raise lists the records, and reads what it
// needs. An event that is older than the reply to a Join has arrived before it, so no ticket that was joined after a
// Raise is granted without it.
type floors struct {
	turn zk.Turn
	w    *zk.Watch
	of   map[string]*record // by flat name; nil: it was not read
}

type record struct {
	Floor keys.Floor `json:"floor"`
	Lost  uint64     `json:"lost,omitempty"` // by the last raise: the ensemble had reached this transaction, and then lost it
}

// allQueues has the record for all of them: no flat name is like that.
const allQueues = "%"

var errIllegible = errors.New("not as it was written")

func decodeRecord(data []byte) (*record, error) {
	r := &record{}
	if json.Unmarshal(data, r) != nil || len(r.Floor) == 0 {
		return &record{}, errIllegible
	}
	for _, s := range r.Floor {
		if s.Add == 0 || s.Add >= driver.MaxToken {
			return &record{}, errIllegible
		}
	}
	return r, nil
}

// readRecord reads a record, and its version: -1 if there is none. Without one that cannot be read tokens could go
// back.
func (s *store) readRecord(ctx context.Context, l *link, queue string) (*record, int32, error) {
	path := s.aside("floors", queue)
	c, err := l.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return &record{}, -1, nil
	}
	if err != nil {
		return nil, 0, err
	}
	r, err := decodeRecord(c.Data)
	if err != nil {
		whose, name := fmt.Sprintf("%q", unflat(queue)), "NAME"
		if queue == allQueues {
			whose, name = "all locks", "--all"
		}
		err = driver.Permanent(fmt.Errorf("zookeeper: %s is %w, so that the tokens of %s could go back (interlock admin raise-token %s FLOOR writes it anew, with a FLOOR above all tokens that were granted)",
			path, err, whose, name))
	}
	return r, c.Stat.Version, err
}

// floor is what is added to the token of a ticket of the queue.
func (s *store) floor(ctx context.Context, l *link, q *queue, zxid uint64) (add uint64, err error) {
	f := &l.floors
	if err := f.turn.Take(ctx); err != nil {
		return 0, err
	}
	defer f.turn.Give()
	if !f.w.Live() {
		if err := s.listFloors(ctx, l); err != nil {
			return 0, err
		}
	}
	for _, name := range []string{flat(q.name), allQueues} {
		r, raised := f.of[name]
		if raised && r == nil {
			if r, _, err = s.readRecord(ctx, l, name); err != nil {
				return 0, err
			}
			f.of[name] = r
		}
		if raised {
			add = max(add, r.Floor.Add(int64(zxid)))
		}
	}
	return add, nil
}

// listFloors notes which records there are; it is the turn of the caller.
func (s *store) listFloors(ctx context.Context, l *link) error {
	f, path := &l.floors, s.aside("floors")
	err := s.laid(ctx, l, path, false, func() error {
		l.Ignore(f.w)
		f.w, f.of = l.Watch(path, false, func() {}), map[string]*record{}
		c, err := l.See(ctx, path)
		if err == nil && c.Stat.NumChildren > 0 {
			var all zk.Children
			all, err = l.List(ctx, path, false)
			for _, name := range all.Names {
				f.of[name] = nil
			}
		}
		return err
	})
	if err != nil {
		l.Ignore(f.w)
		f.w = nil
	}
	return err
}

// Raise raises the tokens of a queue.
func (s *store) Raise(ctx context.Context, name string, floor uint64) error {
	return s.with(ctx, func(ctx context.Context, l *link) error { return s.raise(ctx, l, s.queue(name), floor, 0) })
}

// RaiseAll raises the tokens of tickets that join any queue from now on.
func (s *store) RaiseAll(ctx context.Context, floor uint64) error {
	return s.with(ctx, func(ctx context.Context, l *link) error { return s.raise(ctx, l, nil, floor, 0) })
}

// raise raises the tokens of a queue, or of tickets that join any queue from now on, if
// q is nil.
func (s *store) raise(ctx context.Context, l *link, q *queue, floor, lost uint64) error {
	path := s.aside("floors")
	for {
		now, err := s.tick(ctx, l)
		if err != nil {
			return err
		}
		name, held, next := allQueues, now.Mzxid, now.Mzxid
		if q != nil {
			name = flat(q.name)
			err := anew(func() (err error) {
				held, next, err = s.heldBy(ctx, l, q, now.Mzxid)
				return err
			})
			if err != nil {
				return err
			}
		}
		have, version, err := s.readRecord(ctx, l, name)
		switch illegible := errors.Is(err, errIllegible); {
		case err != nil && !illegible:
			return err
		case !illegible && floor < uint64(next)+have.Floor.Add(next):
			return nil
		}
		have.Floor, have.Lost = have.Floor.Raised(held, next, max(floor, uint64(next))), lost
		data, err := json.Marshal(have)
		if err != nil {
			return err
		}
		var write any = &zk.Write{Path: path + "/" + name, Data: data, Version: version}
		if version < 0 {
			write = &zk.Create{Path: path + "/" + name, Data: data, Acl: s.acl}
		}
		_, err = l.Multi(ctx, write, &zk.Write{Path: path, Version: -1})
		if errors.Is(err, zk.ErrNoNode) {
			if err = s.lay(ctx, l, path, false); err == nil {
				continue
			}
		}
		if !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
}

// heldBy is the transaction of the last ticket that is held, which keeps its token, and the first one from which on
// tokens are raised.
func (s *store) heldBy(ctx context.Context, l *link, q *queue, now int64) (held, next int64, err error) {
	f, err := s.readAll(ctx, l, q)
	if err != nil {
		return 0, 0, err
	}
	for _, t := range f.Keys {
		c, err := l.Get(ctx, q.path+"/"+t.node)
		if err != nil {
			return 0, 0, stale(err)
		}
		zxid := int64(joined(c))
		if p := f.Place(t); !p.Held {
			return held, min(now, zxid), nil // the others are later
		}
		held = max(held, zxid)
	}
	return held, now, nil
}

// resume raises all tokens above the ones that were granted here, if the ensemble has lost their
// transactions: it has begun anew, or gone on with old data. The last answer was to a transaction.
func (s *store) resume(ctx context.Context, l *link) error {
	s.mu.Lock()
	granted, token := s.granted, s.token
	s.mu.Unlock()
	if l.Reached() >= granted {
		return nil
	}
	return s.raise(ctx, l, nil, token, granted)
}

// note remembers a grant for resume.
func (s *store) note(zxid, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted, s.token = max(s.granted, zxid), max(s.token, token)
}
