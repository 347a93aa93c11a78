package curator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

// Resize makes a setting; see there. If its answer is lost and it is repeated, it finds its number set.
func (d *Driver) Resize(ctx context.Context, queue string, capacity int64) error {
	l, err := d.link(ctx)
	if err != nil {
		return err
	}
	if d.names.leases {
		return driver.Permanent(fmt.Errorf("zookeeper: with semaphore=curator each program says how many permits there are, and none of Curator's would learn of another number: %w", errors.ErrUnsupported))
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	return d.failed(d.resize(ctx, l, d.lane(queue), capacity))
}

// exactTries is how often Resize lists a queue whose holders come and go, until it knows all who hold.
const exactTries = 8

func (d *Driver) resize(ctx context.Context, l *link, q *lane, capacity int64) error {
	// A server that lags behind would not show a setting, or tickets, that the caller knows of.
	if err := l.CatchUp(ctx, q.path); err != nil {
		return err
	}
	var mine string // the setting that was made
	var again bool  // in place of another number
	var wrong error // why it is taken back
	for tries := 0; ; tries++ {
		c, err := l.List(ctx, q.path, false)
		if errors.Is(err, zk.ErrNoNode) && capacity == 0 {
			return wrong
		}
		if errors.Is(err, zk.ErrNoNode) {
			if err = d.lay(ctx, l, q.path, false); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		all, old, err := d.settled(ctx, l, q, c.Names)
		if errors.Is(err, errStale) {
			continue
		}
		if err != nil {
			return err
		}
		if wrong != nil && old.node != mine {
			return wrong
		}
		var refused []any
		if capacity > 0 || !old.kept { // who takes a number back lets others in
			refused, err = d.refused(ctx, l, q, c.Names, all)
		}
		if errors.Is(err, driver.ErrMismatch) && mine != "" && old.node == mine && !again {
			// Others came while it was made, and may hold by it by now.
			capacity, wrong = 0, err
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case capacity == 0 && (old.node == "" || !old.kept && old.capacity > 0):
			return wrong
		case capacity == 0 && old.capacity == 0 && len(all) > 0:
			return d.legible(q, &old)
		case old.kept && old.capacity == capacity && capacity > 0:
			return d.removeUnfit(ctx, l, q)
		}
		ops := removals(q, c.Names)
		if capacity > 0 || slices.ContainsFunc(all, func(n name) bool { return n.permits() }) {
			next, stand := all.resized(&old, capacity, made(c.Stat), tries < exactTries)
			var checks []any
			for _, node := range stand {
				checks = append(checks, &zk.Check{Path: q.path + "/" + node, Version: -1})
			}
			ops = slices.Concat(checks, refused, ops)
			ops = append(ops, d.settingOf(q.path, &next), &zk.Create{Path: q.path + "/" + bell, Acl: d.acl, Flags: zk.Persistent})
		}
		answers, err := l.Multi(ctx, ops...)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists): // it is not as it was in the list
		case err != nil:
			return err
		case capacity == 0:
			return wrong
		default:
			path := answers[len(answers)-2].String
			mine, again = path[len(q.path)+1:], old.kept
		}
	}
}

// refused are operations that remove the tickets of other kinds, which are to be refused: behind another
// setting they would not be any more. It is ErrMismatch if one is not.
func (d *Driver) refused(ctx context.Context, l *link, q *lane, nodes []string, all line) (ops []any, err error) {
	if d.lent(nodes) {
		if _, other, err := d.lentAt(ctx, l, q); err != nil || other {
			return nil, cmp.Or(err, driver.ErrMismatch)
		}
	}
	for i := range all {
		if all[i].permits() {
			continue
		}
		because, refused := all.intruder(i)
		if !refused {
			return nil, driver.ErrMismatch
		}
		ops = append(ops, q.expelling(&all[i], q.path+"/"+because.node)...)
	}
	return ops, nil
}

// removeUnfit takes out the tickets that wait for more than there is, as Evict does. Of those that may be held it
// takes out none: their own clients do, if they wait.
func (d *Driver) removeUnfit(ctx context.Context, l *link, q *lane) error {
	for {
		c, err := l.List(ctx, q.path, false)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		all, s := parseQueue(c.Names)
		if !s.kept || s.capacity == 0 {
			return nil // somebody else has come
		}
		var unfit line
		for i := all.waiting(); i < len(all) && len(unfit) < mostWithdrawn; i++ {
			n := &all[i]
			if n.kind == driver.Semaphore && n.units > n.capacity && !n.stays && !n.unsure && !n.intrudes {
				unfit = append(unfit, *n)
			}
		}
		if len(unfit) == 0 {
			return nil
		}
		ops := []any{&zk.Check{Path: q.path + "/" + s.node, Version: -1}}
		for _, n := range unfit {
			ops = append(ops, &zk.Delete{Path: q.path + "/" + n.node, Version: -1})
		}
		told, err := d.lettersTo(ctx, l, q, unfit)
		if err != nil {
			return err
		}
		_, err = l.Multi(ctx, append(ops, told...)...)
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
}

// lettersTo tell the sessions of these tickets that they are gone.
func (d *Driver) lettersTo(ctx context.Context, l *link, q *lane, all line) (ops []any, err error) {
	contents, errs := make([]content, len(all)), make([]error, len(all))
	var reads sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range all {
		slots <- struct{}{}
		reads.Go(func() {
			defer func() { <-slots }()
			contents[i], errs[i] = l.Get(ctx, q.path+"/"+all[i].node)
		})
	}
	reads.Wait()
	letters := map[int64]string{}
	for i := range all {
		switch {
		case errs[i] == nil:
			letters[contents[i].Stat.EphemeralOwner] += letter(driver.Force, q.name, all[i].id)
		case !errors.Is(errs[i], zk.ErrNoNode): // else the transaction fails
			return nil, errs[i]
		}
	}
	for session, text := range letters {
		more, err := d.letters(ctx, l, session, text)
		if err != nil {
			return nil, err
		}
		ops = append(ops, more...)
	}
	return ops, nil
}
