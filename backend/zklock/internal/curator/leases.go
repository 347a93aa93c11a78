package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
)

// Leases are what one ticket has. The first one in locks makes its leases, and holds once there are no more leases than
// permits; only then does it leave locks to the next one. So permits are granted in the order of locks.
//
// Its fields are of the one that has the turn.
type Leases struct {
	base
	path  string // of all leases
	units int64
	nodes []string  // nil: not made, as far as is known
	doubt bool      // there may be some: what was to make them had no answer
	marks bool      // the data of leases are this package's
	on    *zk.Watch // of leases
}

const (
	mostLeases = 1000 // of a ticket: each is a node

	// Patience is how long Join waits for those in front who hold, too, and are on their way from locks to leases.
	Patience = time.Second
)

// Leases is for a ticket. It may have some from an earlier session if its Join is repeated.
func (ls *Layouts) Leases(t Ticket) *Leases {
	p := ls.base(t)
	return &Leases{base: p, path: p.queue + leases, units: t.Join().Units, doubt: t.Join().Retry}
}

// CheckLeases refuses what leases cannot be.
func CheckLeases(units int64, hold time.Duration) error {
	switch {
	case hold > 0:
		return ErrFixedLease
	case units > mostLeases:
		return driver.Invalid(fmt.Errorf("zookeeper: %d permits at once: with semaphore=curator each is a node, and %d are possible",
			units, mostLeases))
	}
	return nil
}

var (
	// ErrFixedLease refuses a fixed end: no program in Java would remove the node.
	ErrFixedLease = driver.Invalid(errors.New("zookeeper: with semaphore=curator a permit ends with its session, " +
		"never at a fixed time"))

	// ErrResize refuses another number of permits.
	ErrResize = driver.Permanent(fmt.Errorf("zookeeper: with semaphore=curator each program says how many permits there are, "+
		"and none of Curator's would learn of another number: %w", errors.ErrUnsupported))
)

// Mismatch is driver.ErrMismatch because of a node.
func Mismatch(node string) error {
	return fmt.Errorf("%w: the ticket %s is there", driver.ErrMismatch, node)
}

// Against is a lease that says another number of permits; "": there is none.
func (p *Leases) Against(ctx context.Context, limit int64) (path string, err error) {
	all, err := p.list(ctx, p.Link(), false)
	if first, says := all.limit(); says && first.limit != limit {
		path = p.path + "/" + first.node
	}
	return path, err
}

func (p *Leases) list(ctx context.Context, l *zk.Link, watch bool) (lent, error) {
	nodes, err := list(ctx, l, p.path, watch)
	return lentIn(nodes), err
}

// First is called when the lock is first in locks. It makes the leases, and sees whether they are granted; if not, the
// ticket is woken when that may be so. Inherited says what the ticket inherits, and node is one of the leases. It is
// ErrMismatch if another number of permits is there.
func (p *Leases) First(ctx context.Context, lock string) (node string, inherited bool, err error) {
	err = p.do(ctx, func(ctx context.Context) error {
		if err := p.recover(ctx); err != nil {
			return err
		}
		if p.nodes == nil {
			if err := p.borrow(ctx, lock); err != nil {
				return err
			}
		}
		p.Link().Ignore(p.on)
		p.on = p.Link().Watch(p.path, true, p.Wake)
		all, err := p.list(ctx, p.Link(), true)
		if err != nil {
			return err
		}
		switch all.judge(p.nodes, p.Join().Capacity) {
		case gone:
			return driver.ErrGone
		case refused:
			first, _ := all.limit()
			return Mismatch(first.node)
		case full:
			return nil
		}
		p.Link().Ignore(p.on)
		if j := p.Join(); p.units == j.Capacity || j.ReportDeath {
			c, err := p.Link().Get(ctx, p.path)
			if err != nil {
				return err
			}
			_, ours := marked(c.Data)
			p.marks, inherited = ours || len(c.Data) == 0, j.ReportDeath && all.inherits(c.Data, j.Capacity)
		}
		node = p.path + "/" + p.nodes[0]
		return nil
	})
	return node, inherited, err
}

// recover finds the leases whose creation had no answer. Those of an earlier session of ours are removed.
func (p *Leases) recover(ctx context.Context) error {
	if !p.doubt {
		return nil
	}
	l := p.Link()
	if err := l.CatchUp(ctx, p.path); err != nil {
		return err
	}
	all, err := p.list(ctx, l, false)
	if err != nil {
		return err
	}
	mine := all.of(p.Join().ID)
	if len(mine) > 0 {
		c, err := l.Get(ctx, p.path+"/"+mine[0])
		if err != nil {
			return err // they are about to go away
		}
		if session, _ := p.Session(); c.Stat.EphemeralOwner != session {
			if _, err := p.sweep(ctx, l, ""); err != nil {
				return err
			}
			mine = nil
		}
	}
	p.nodes, p.doubt = mine, false
	return nil
}

// borrow makes all leases at once, as long as the ticket stands in locks.
func (p *Leases) borrow(ctx context.Context, lock string) error {
	j := p.Join()
	for tries := 0; ; tries++ {
		ops := []any{&zk.Check{Path: lock, Version: -1}}
		says := p.Data(true)
		for range p.units {
			one := p.path + "/" + stem(j.ID, j.Capacity)
			ops = append(ops, &zk.Create{Path: one, Data: says, Acl: p.ls.ACL(), Flags: zk.EphemeralSequential})
			says = nil // the first says it
		}
		made, err := p.Link().Multi(context.WithoutCancel(ctx), ops...)
		switch {
		case err == nil:
			for _, m := range made[1:] {
				p.nodes = append(p.nodes, m.Path[len(p.path)+1:])
			}
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			p.doubt = !errors.Is(err, zk.ErrNoAuth)
			return err
		case tries > 10 || len(made) > 0 && errors.Is(made[0].Err, zk.ErrNoNode): // the lock has gone
			return driver.ErrGone
		}
		// A container that is empty goes away at any time. What a ticket with ReportDeath wants to know must not go
		// with it.
		if err := p.ls.Lay(ctx, p.Link(), p.path, !j.ReportDeath); err != nil {
			return err
		}
	}
}

// Unlocks are what goes with the removal of the lock of a ticket that First has granted.
func (p *Leases) Unlocks() []any {
	if !p.marks || p.units < p.Join().Capacity {
		return nil
	}
	return []any{&zk.Write{Path: p.path, Data: mark(unclean), Version: -1}}
}

// Look is ErrGone if a holder lacks a lease.
func (p *Leases) Look(ctx context.Context) error {
	return p.do(ctx, func(ctx context.Context) error {
		all, err := p.list(ctx, p.Link(), false)
		if err == nil && (len(p.nodes) == 0 || all.judge(p.nodes, p.Join().Capacity) == gone) {
			err = driver.ErrGone
		}
		return err
	})
}

// Leave removes the leases, together with the lock if there is one. It is ErrGone if nothing was there.
func (p *Leases) Leave(ctx context.Context, lock string, clean bool) error {
	return p.do(ctx, func(ctx context.Context) error {
		p.Link().Ignore(p.on)
		paths := p.paths(p.nodes)
		if lock != "" {
			paths = append(paths, lock)
		}
		err := error(zk.ErrNoNode)
		if !p.doubt && len(paths) > 0 {
			err = p.change(ctx, clean && p.Held() && p.units == p.Join().Capacity, paths)
		}
		if errors.Is(err, zk.ErrNoNode) {
			var found bool
			if found, err = p.sweep(ctx, p.Link(), lock); err == nil && !found {
				err = driver.ErrGone
			}
		}
		if err == nil || errors.Is(err, driver.ErrGone) {
			p.nodes, p.doubt = nil, false
		}
		return err
	})
}

func (p *Leases) paths(nodes []string) (paths []string) {
	for _, node := range nodes {
		paths = append(paths, p.path+"/"+node)
	}
	return paths
}

// change removes nodes in one transaction, which may leave a mark.
func (p *Leases) change(ctx context.Context, marks bool, paths []string) error {
	var ops []any
	for _, path := range paths {
		ops = append(ops, &zk.Delete{Path: path, Version: -1})
	}
	if marks && p.marks {
		last := parse(p.nodes[len(p.nodes)-1]).number
		_, err := p.Link().Multi(ctx, append(ops, &zk.Write{Path: p.path, Data: mark(last), Version: -1})...)
		if p.marks = !errors.Is(err, zk.ErrNoAuth); p.marks {
			return err
		}
	}
	_, err := p.Link().Multi(ctx, ops...)
	return err
}

// sweep removes what is found. Once the lock is gone no leases can be made: they are looked for after that.
func (p *Leases) sweep(ctx context.Context, l *zk.Link, lock string) (found bool, err error) {
	var paths []string
	if lock != "" {
		paths = []string{lock}
	}
	for range 2 {
		for _, path := range paths {
			err := l.Remove(ctx, path)
			if found = found || err == nil; err != nil && !errors.Is(err, zk.ErrNoNode) {
				return found, err
			}
		}
		if err := l.CatchUp(ctx, p.path); err != nil {
			return found, err
		}
		all, err := p.list(ctx, l, false)
		if err != nil {
			return found, err
		}
		paths = p.paths(all.of(p.Join().ID))
	}
	return found, nil
}

// Abandon removes the leases, by any connection. The lock is gone.
func (p *Leases) Abandon(ctx context.Context, l *zk.Link) error {
	return p.do(ctx, func(context.Context) error {
		_, err := p.sweep(ctx, l, "")
		return err
	})
}

// Shrink gives leases back. Done says that there are some; else the ticket only asks for fewer, and its lock is to say
// so.
func (p *Leases) Shrink(ctx context.Context, units int64) (done bool, err error) {
	err = p.do(ctx, func(ctx context.Context) error {
		if err := p.recover(ctx); err != nil || units >= p.units {
			done = true
			return err
		}
		if done = p.nodes != nil; !done {
			p.units = units
			return nil
		}
		all, err := p.list(ctx, p.Link(), false)
		if err != nil {
			return err
		}
		if all.judge(p.nodes[:units], p.Join().Capacity) == gone {
			return driver.ErrGone
		}
		// Those that are gone already were given back by a call without an answer.
		there := all.of(p.Join().ID)
		gone := func(node string) bool { return !slices.Contains(there, node) }
		back := slices.DeleteFunc(slices.Clone(p.nodes[units:]), gone)
		if len(back) > 0 {
			if err := p.change(ctx, p.Held() && p.units == p.Join().Capacity, p.paths(back)); err != nil {
				return err
			}
		}
		p.units, p.nodes = units, p.nodes[:units]
		return nil
	})
	return done, err
}
