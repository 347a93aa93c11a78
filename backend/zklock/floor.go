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

// A node says what is added to the transactions of tickets, for each queue whose tokens were
// raised. They are few: a connection reads them all once and
// watches for more. An event that is older than the reply to a Join has arrived
// before it, so no ticket that was joined after a Raise is granted without it.
type floors struct {
	turn turn
	w    *watch
	by   additions
}

// additions are by the flat name of a queue; those of allQueues are for all of them.
type additions map[string][]addition

const allQueues = ""

// to is what is added to the token of a ticket of that transaction.
func (a additions) to(queue string, zxid uint64) uint64 {
	return max(added(a[queue], zxid), added(a[allQueues], zxid))
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
	return f.by.to(flat(q.name), zxid), nil
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
		f.by, err = decodeAdditions(path, c)
		return err
	}
}

func decodeAdditions(path string, c content) (additions, error) {
	by := additions{}
	if len(c.data) == 0 {
		return by, nil
	}
	if err := json.Unmarshal(c.data, &by); err != nil {
		return nil, driver.Permanent(fmt.Errorf("zookeeper: %s: %w", path, err))
	}
	return by, nil
}

func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	if floor >= driver.MaxToken-1 {
		return driver.Invalid(fmt.Errorf("zookeeper: no token can be larger than %d", floor))
	}
	var q *lane
	if queue != allQueues {
		var err error
		if q, err = d.lane(queue); err != nil {
			return err
		}
	}
	l, err := d.link(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	return d.failed(d.raise(ctx, l, q, floor))
}

// raise raises the tokens of a queue, or those of tickets that join any queue from now on, if
// q is nil.
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
		zxid := uint64(now.Mzxid)
		name, r := allQueues, raising{held: zxid, next: zxid}
		if q != nil {
			name = flat(q.name)
			if r, err = d.raising(ctx, l, q, zxid); err != nil {
				return err
			}
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
		by, err := decodeAdditions(path, c)
		if err != nil {
			return err
		}
		if floor < r.next+by.to(name, r.next) {
			return nil
		}
		by[name] = raised(by[name], addition{r.held, floor + 1 - r.next}, r.oldest)
		data, err := json.Marshal(by)
		if err := errors.Join(err, checkData(path, data)); err != nil {
			return err
		}
		if _, err = l.set(ctx, path, data, c.stat.Version); !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
}

// raising is what a raise has to know of a queue: transactions of tickets.
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

// joined is the transaction of a ticket's first node.
func joined(c content) uint64 {
	if m, ok := decode(c.data); ok && m.Lent != 0 {
		return m.Lent
	} else if ok && m.Joined != 0 && m.Zxid != 0 {
		return m.Zxid
	}
	return uint64(c.stat.Czxid)
}
