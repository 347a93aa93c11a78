package curator

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

type floors struct {
	turn turn
	w    *zk.Watch
	by   additions
}

const everyRecord = "%"

func (d *Driver) record(queue string) string { return d.aside("floors", cmp.Or(queue, everyRecord)) }

func (d *Driver) floor(ctx context.Context, l *link, q *lane, zxid uint64) (uint64, error) {
	f := &l.floors
	if err := f.turn.take(ctx); err != nil {
		return 0, err
	}
	defer f.turn.give()
	if _, fired := f.w.Fired(); fired || f.w == nil {
		if err := d.readFloors(ctx, l); err != nil {
			return 0, err
		}
	}
	var add uint64
	for _, name := range []string{flat(q.name), allQueues} {
		all, err := d.additions(ctx, l, f.by, name)
		if err != nil {
			return 0, err
		}
		add = max(add, added(all, zxid))
	}
	return add, nil
}

func (d *Driver) additions(ctx context.Context, l *link, by additions, queue string) ([]addition, error) {
	data, raised := by.of[queue]
	if !raised && !by.lost {
		return nil, nil
	}
	if all, err := decodeRecord(data); err == nil {
		return all, nil
	}
	c, err := l.Get(ctx, d.record(queue))
	switch {
	case errors.Is(err, zk.ErrNoNode) && !raised:
		return nil, nil
	case err != nil && !errors.Is(err, zk.ErrNoNode):
		return nil, err
	}
	all, err := decodeRecord(c.Data)
	if err != nil {
		return nil, d.illegible(queue, err)
	}
	return all, nil
}

func (d *Driver) illegible(queue string, err error) error {
	whose, name := fmt.Sprintf("%q", unflat(queue)), "NAME"
	if queue == allQueues {
		whose, name = "all locks", "--all"
	}
	return driver.Permanent(fmt.Errorf("zookeeper: %s and %s: %w, so that the tokens of %s could go back (interlock admin raise-token %s FLOOR writes both anew, with a FLOOR above all tokens that were granted)",
		d.aside("floors"), d.record(queue), err, whose, name))
}

func (d *Driver) readFloors(ctx context.Context, l *link) error {
	f := &l.floors
	path := d.aside("floors")
	for {
		l.Ignore(f.w)
		f.w = l.watch(path, false, make(chan struct{}, 1))
		c, err := l.See(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			if err = d.lay(ctx, l, path, false); err == nil {
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

func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	var q *lane
	if queue != allQueues {
		q = d.lane(queue)
	}
	l, err := d.link(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	return d.failed(d.raise(ctx, l, q, floor, 0))
}

func (d *Driver) raise(ctx context.Context, l *link, q *lane, floor, lost uint64) error {
	path := d.aside("floors")
	for {
		now, err := l.Set(ctx, d.aside("clock"), nil, -1) // the present transaction
		if errors.Is(err, zk.ErrNoNode) {
			if err = d.lay(ctx, l, d.aside("clock"), false); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		zxid := uint64(now.Mzxid)
		name, r := allQueues, raising{held: zxid, next: zxid}
		if q != nil {
			name = flat(q.name)
			if r, err = d.raising(ctx, l, q, zxid); err != nil {
				return err
			}
		}
		c, err := l.Get(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			if err = d.lay(ctx, l, path, false); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		by, err := d.everyAddition(ctx, l, path, c)
		if err != nil {
			return err
		}
		have, err := d.additions(ctx, l, by, name)
		illegible := errors.Is(err, errIllegible)
		if err != nil && !illegible {
			return err
		}
		add := added(have, r.next)
		if q != nil {
			all, err := d.additions(ctx, l, by, allQueues)
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
		if err = d.keepAdditions(ctx, l, by, name, have, c.Stat.Version); !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
}

func (d *Driver) resume(ctx context.Context, l *link) error {
	d.mu.Lock()
	granted, token := d.granted, d.token
	d.mu.Unlock()
	if l.Reached() >= granted {
		return nil
	}
	return d.raise(ctx, l, nil, token, granted)
}

func (d *Driver) note(zxid, token uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.granted, d.token = max(d.granted, zxid), max(d.token, token)
}

func (d *Driver) everyAddition(ctx context.Context, l *link, path string, c content) (additions, error) {
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

func (d *Driver) keepAdditions(ctx context.Context, l *link, by additions, queue string, all []addition, version int32) error {
	path, record := d.aside("floors"), d.record(queue)
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
		ops = append(ops, &zk.Create{Path: record, Data: one, Acl: d.acl})
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

type raising struct {
	oldest uint64 // that stands
	held   uint64 // the last that is held, and keeps its token
	next   uint64 // the first that is not held, or will come
}

func (d *Driver) raising(ctx context.Context, l *link, q *lane, now uint64) (raising, error) {
	r := raising{oldest: math.MaxUint64, next: now}
	all, err := d.line(ctx, l, q)
	if err != nil {
		return r, err
	}
	for i, n := range all {
		if n.foreign {
			continue // it has no token
		}
		c, err := l.ticket(ctx, q, &n)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return r, err
		}
		zxid := joined(c)
		r.oldest = min(r.oldest, zxid)
		if !all.holds(i) {
			r.next = min(r.next, zxid)
			break // those behind are later
		}
		r.held = max(r.held, zxid)
	}
	return r, nil
}

func joined(c content) uint64 {
	zxid := uint64(c.Stat.Czxid)
	if m, ok := decode(c.Data); ok && m.Lent != 0 {
		return min(m.Lent, zxid)
	} else if ok && m.Joined != 0 && m.Zxid != 0 {
		return min(m.Zxid, zxid)
	}
	return zxid
}
