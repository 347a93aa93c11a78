package zklock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
)

// A queue whose tokens were raised has a node that says what is added to the
// transaction of a ticket. They are few: a connection reads them all once and
// watches for more. An event that is older than the reply to a Join has arrived
// before it, so no ticket that was joined after a Raise is granted without it.
type floors struct {
	turn turn
	w    *watch
	by   map[string][]addition // by flat name of the queue
}

// addition is made to the token of tickets whose transaction is later than After.
type addition struct {
	After uint64 `json:"after,string"`
	Add   uint64 `json:"add,string"`
}

func added(all []addition, zxid uint64) (add uint64) {
	for _, a := range all {
		if zxid > a.After {
			add = a.Add
		}
	}
	return add
}

// raised returns the additions with one more, and without those that no ticket needs:
// those that it hides, and those of tickets before the oldest one that stands.
func raised(have []addition, last addition, oldest uint64) (next []addition) {
	for i, a := range have {
		following := last
		if i+1 < len(have) {
			following = have[i+1]
		}
		if a.After < last.After && following.After >= oldest {
			next = append(next, a)
		}
	}
	return append(next, last)
}

func (d *Driver) floor(ctx context.Context, l *link, q *lane, zxid uint64) (uint64, error) {
	f := &l.floors
	if err := f.turn.take(ctx); err != nil {
		return 0, err
	}
	defer f.turn.give()
	if _, fired := f.w.fired(); fired || f.w == nil {
		if err := d.readFloors(ctx, l); err != nil {
			return 0, err
		}
	}
	return added(f.by[flat(q.name)], zxid), nil
}

// readFloors reads all of them; it is the turn of the caller.
func (d *Driver) readFloors(ctx context.Context, l *link) error {
	f := &l.floors
	path := d.aside("floors")
	for {
		l.tap.ignore(f.w)
		f.w = l.tap.watch(path, false, make(chan struct{}, 1))
		c, err := l.see(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			if err = d.lay(ctx, l, path, false); err == nil {
				continue
			}
		}
		if err != nil {
			l.tap.ignore(f.w)
			f.w = nil
			return err
		}
		f.by = nil
		if len(c.data) > 0 {
			if err := json.Unmarshal(c.data, &f.by); err != nil {
				return driver.Permanent(fmt.Errorf("zookeeper: %s: %w", path, err))
			}
		}
		return nil
	}
}

func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	if floor >= driver.MaxToken-1 {
		return driver.Invalid(fmt.Errorf("zookeeper: no token can be larger than %d", floor))
	}
	q, err := d.lane(queue)
	if err != nil {
		return err
	}
	l, err := d.link(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	return d.failed(d.raise(ctx, l, q, floor))
}

func (d *Driver) raise(ctx context.Context, l *link, q *lane, floor uint64) error {
	path := d.aside("floors")
	for {
		now, err := l.set(ctx, d.aside("clock"), nil, -1) // the present transaction
		if errors.Is(err, zk.ErrNoNode) {
			if err = d.lay(ctx, l, d.aside("clock"), false); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		// Tickets that are held keep their tokens.
		lowest, after, oldest := uint64(now.Mzxid), uint64(0), uint64(math.MaxUint64)
		all, err := d.line(ctx, l, q)
		if err != nil {
			return err
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
				return err
			}
			zxid := joined(c)
			oldest = min(oldest, zxid)
			if all.holds(i) {
				after = max(after, zxid)
				continue
			}
			lowest = min(lowest, zxid)
			break // those behind are later
		}
		c, err := l.get(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			if err = d.lay(ctx, l, path, false); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		by := map[string][]addition{}
		if len(c.data) > 0 {
			if err := json.Unmarshal(c.data, &by); err != nil {
				return driver.Permanent(fmt.Errorf("zookeeper: %s: %w", path, err))
			}
		}
		have := by[flat(q.name)]
		if floor < lowest+added(have, lowest) {
			return nil
		}
		by[flat(q.name)] = raised(have, addition{after, floor + 1 - lowest}, oldest)
		data, err := json.Marshal(by)
		if err := errors.Join(err, checkData(path, data)); err != nil {
			return err
		}
		if _, err = l.set(ctx, path, data, c.stat.Version); !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
}

// joined is the transaction of a ticket's first node.
func joined(c content) uint64 {
	if m, ok := decode(c.data); ok && m.Lent != 0 {
		return m.Lent
	} else if ok && m.Joined != 0 && m.Zxid != 0 {
		return m.Zxid
	}
	return uint64(c.stat.Czxid)
}
