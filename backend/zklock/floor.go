package zklock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

// A number that is added to the transactions of tickets is kept for each queue whose tokens were raised,
// and twice: in one node for all queues, and in a record below it for each. Both are written in
// one transaction. The queues are few: a connection reads the node once and
// watches it. An event that is older than the reply to a Join has arrived
// before it, so no ticket that was joined after a Raise is granted without it. The record is
// read where the node is not as it was written.
type floors struct {
	turn turn
	w    *zk.Watch
	by   additions
}

// everyRecord is the record of allQueues: no flat name is like that.
const everyRecord = "%"

// record is the node with the additions of one queue.
func (s *store) record(queue string) string { return s.aside("floors", cmp.Or(queue, everyRecord)) }

func (s *store) floor(ctx context.Context, l *link, q *queue, zxid uint64) (uint64, error) {
	f := &l.floors
	if err := f.turn.take(ctx); err != nil {
		return 0, err
	}
	defer f.turn.give()
	if _, fired := f.w.Fired(); fired || f.w == nil {
		if err := s.readFloors(ctx, l); err != nil {
			return 0, err
		}
	}
	var add uint64
	for _, name := range []string{flat(q.name), allQueues} {
		all, err := s.additions(ctx, l, f.by, name)
		if err != nil {
			return 0, err
		}
		add = max(add, added(all, zxid))
	}
	return add, nil
}

// additions reads the ones of one queue. Without them its tokens could go back: if neither the node
// of all queues nor the record says them, that is an error.
func (s *store) additions(ctx context.Context, l *link, by additions, queue string) ([]addition, error) {
	data, raised := by.of[queue]
	if !raised && !by.lost {
		return nil, nil
	}
	if all, err := decodeRecord(data); err == nil {
		return all, nil
	}
	c, err := l.Get(ctx, s.record(queue))
	switch {
	case errors.Is(err, zk.ErrNoNode) && !raised:
		return nil, nil
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		return nil, err
	}
	all, err := decodeRecord(c.Data)
	if err != nil {
		return nil, s.illegible(queue, err)
	}
	return all, nil
}

func (s *store) illegible(queue string, err error) error {
	whose, name := fmt.Sprintf("%q", unflat(queue)), "NAME"
	if queue == allQueues {
		whose, name = "all locks", "--all"
	}
	return driver.Permanent(fmt.Errorf("zookeeper: %s and %s: %w, so that the tokens of %s could go back (interlock admin raise-token %s FLOOR writes both anew, with a FLOOR above all tokens that were granted)",
		s.aside("floors"), s.record(queue), err, whose, name))
}

// readFloors reads all of them; it is the turn of the caller.
func (s *store) readFloors(ctx context.Context, l *link) error {
	f := &l.floors
	path := s.aside("floors")
	for {
		l.Ignore(f.w)
		f.w = l.Watch(path, false, func() {})
		c, err := l.See(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			if err = s.lay(ctx, l, path, false); err == nil {
				continue
			}
		}
		if err != nil {
			l.Ignore(f.w)
			f.w = nil
			return err
		}
		f.by = decodeAdditions(c)
		return nil
	}
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
		zxid := uint64(now.Mzxid)
		name, r := allQueues, raising{held: zxid, next: zxid}
		if q != nil {
			name = flat(q.name)
			if r, err = s.raising(ctx, l, q, zxid); err != nil {
				return err
			}
		}
		c, err := l.Get(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			if err = s.lay(ctx, l, path, false); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		by, err := s.everyAddition(ctx, l, path, c)
		if err != nil {
			return err
		}
		have, err := s.additions(ctx, l, by, name)
		illegible := errors.Is(err, errIllegible)
		if err != nil && !illegible {
			return err
		}
		add := added(have, r.next)
		if q != nil {
			all, err := s.additions(ctx, l, by, allQueues)
			if err != nil {
				return err
			}
			add = max(add, added(all, r.next))
		}
		switch {
		case illegible || floor >= r.next+add:
			have = raised(have, addition{r.held, max(floor, r.next) + 1 - r.next, lost}, r.oldest)
		case !by.lost:
			return nil
		}
		if err = s.keepAdditions(ctx, l, by, name, have, c.Stat.Version); !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
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

// everyAddition is what the node of all queues says, or the records if it cannot be reas. One
// that cannot be read either stays so.
func (s *store) everyAddition(ctx context.Context, l *link, path string, c zk.Content) (additions, error) {
	by := decodeAdditions(c)
	if !by.lost {
		return by, nil
	}
	records, err := l.List(ctx, path, false)
	if err != nil {
		return by, err
	}
	by.of = map[string]json.RawMessage{}
	for _, node := range records.Names {
		c, err := l.Get(ctx, path+"/"+node)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return by, err
		}
		if _, err := decodeRecord(c.Data); err != nil {
			c.Data = []byte("null")
		}
		by.of[strings.TrimPrefix(node, everyRecord)] = c.Data
	}
	return by, nil
}

// keepAdditions writes the node of all queues, which has that version, and the record of one.
func (s *store) keepAdditions(ctx context.Context, l *link, by additions, queue string, all []addition, version int32) error {
	path, record := s.aside("floors"), s.record(queue)
	one, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if by.of == nil {
		by.of = map[string]json.RawMessage{}
	}
	if len(all) > 0 {
		by.of[queue] = one
	}
	data, err := json.Marshal(by.of)
	if err := errors.Join(err, checkData(path, data)); err != nil {
		return err
	}
	ops := []any{&zk.Write{Path: path, Data: data, Version: version}}
	switch c, err := l.Get(ctx, record); {
	case len(all) == 0:
	case errors.Is(err, zk.ErrNoNode):
		ops = append(ops, &zk.Create{Path: record, Data: one, Acl: s.acl})
	case err != nil:
		return err
	default:
		ops = append(ops, &zk.Write{Path: record, Data: one, Version: c.Stat.Version})
	}
	_, err = l.Multi(ctx, ops...)
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return zk.ErrBadVersion // the record has come or gone
	}
	return err
}

// raising is what a raise has to know of a queue: transactions of tickets.
type raising struct {
	oldest uint64 // that stands
	held   uint64 // the last that is held, and keeps its token
	next   uint64 // the first that is not held, or will come
}

func (s *store) raising(ctx context.Context, l *link, q *queue, now uint64) (raising, error) {
	r := raising{oldest: math.MaxUint64, next: now}
	f, err := s.readAll(ctx, l, q)
	if err != nil {
		return r, err
	}
	for _, t := range f.Keys {
		c, err := l.Get(ctx, q.path+"/"+t.node)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return r, err
		}
		zxid := joined(c)
		r.oldest = min(r.oldest, zxid)
		if p := f.Place(t); !p.Held {
			r.next = min(r.next, zxid)
			break // the others are later
		}
		r.held = max(r.held, zxid)
	}
	return r, nil
}
