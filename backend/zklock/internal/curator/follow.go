package curator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

const again = 50 * time.Millisecond

func (d *Driver) retrying(ctx context.Context, look func(ctx context.Context, l *link) (done bool, err error)) error {
	limit := ctx
	ctx, cancel := d.bound(ctx)
	defer cancel()
	var pauses backoff.Backoff
	for {
		l, err := d.link(ctx)
		if err == nil {
			var done bool
			if done, err = look(ctx, l); err == nil {
				if done {
					return nil
				}
				pauses = backoff.Backoff{}
				continue
			}
		}
		if e := d.usable(limit); e != nil {
			return e
		}
		if err = d.failed(err); driver.IsPermanent(err) {
			return err
		}
		_ = pauses.Sleep(ctx)
	}
}

func pause(ctx context.Context, bell chan struct{}, most time.Duration) error {
	var timer <-chan time.Time
	if most > 0 {
		t := time.NewTimer(most)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-bell:
	case <-timer:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (d *Driver) Follow(ctx context.Context, queue, after string) (found driver.Queue, err error) {
	q := d.lane(queue)
	cache := map[string]entry{}
	err = d.retrying(ctx, func(ctx context.Context, l *link) (bool, error) {
		if after == "" {
			if err := l.CatchUp(ctx, q.path); err != nil {
				return false, err
			}
		}
		bell := make(chan struct{}, 1)
		if after != "" {
			for _, path := range d.folders(q) {
				w := l.watch(path, true, bell)
				defer l.Ignore(w)
			}
		}
		all, set, version, read, err := d.lineup(ctx, l, q, after != "")
		if err != nil {
			return false, err
		}
		if version != after {
			found, err = d.members(ctx, l, q, all, set, cache, true)
			found.Version, found.Read = version, read
			return err == nil, err
		}
		most := time.Duration(0)
		if len(all) == 0 {
			most = 250 * time.Millisecond // there may be no node to watch
		}
		for _, n := range all {
			if n.until != 0 {
				most = 250 * time.Millisecond
			}
		}
		return false, pause(ctx, bell, most)
	})
	return found, err
}

func (d *Driver) lineup(ctx context.Context, l *link, q *lane, watch bool) (all line, set setting, version string, read driver.Instant, err error) {
	err = errStale
	for errors.Is(err, errStale) {
		read = d.Now()
		if all, set, err = d.tickets(ctx, l, q, watch); err == nil {
			all, err = d.standing(ctx, l, q, all)
		}
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, set, "", 0, err
	}
	h := fnv.New128a()
	if set.inForce {
		_, _ = fmt.Fprintln(h, set.capacity, set.kept)
	}
	for _, n := range all {
		_, _ = h.Write([]byte(n.shown() + "\n"))
	}
	return all, set, fmt.Sprintf("%x", h.Sum(nil)), read, nil
}

func (d *Driver) members(ctx context.Context, l *link, q *lane, all line, set setting, cache map[string]entry, adopted bool) (driver.Queue, error) {
	found := driver.Queue{Name: q.name}
	var now int64
	members := make([]entry, len(all))
	there := make([]bool, len(all))
	errs := make([]error, len(all))
	for _, n := range all {
		if n.until != 0 {
			var err error
			if now, _, _, err = d.clock(ctx, l); err != nil {
				return found, err
			}
			break
		}
	}
	var reads sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i, n := range all {
		if m, ok := cache[n.node]; ok {
			members[i], there[i] = m, true
			continue
		}
		slots <- struct{}{}
		reads.Go(func() {
			defer func() { <-slots }()
			c, err := l.ticket(ctx, q, &n)
			switch {
			case errors.Is(err, zk.ErrNoNode):
			case err != nil:
				errs[i] = err
			default:
				members[i], there[i] = member(&n, c), true
			}
		})
	}
	reads.Wait()
	if err := errors.Join(errs...); err != nil {
		return found, err
	}
	for i, n := range all {
		if !there[i] {
			continue // it has just left
		}
		m := members[i]
		cache[n.node] = m
		if all.holds(i) {
			m.Held = true
			if !m.told {
				add, err := d.floor(ctx, l, q, m.Token)
				switch m.Token = min(m.Token+add, driver.MaxToken-1); {
				case errors.Is(err, errIllegible) && !(adopted && n.until != 0):
					m.Token = 0
				case err != nil:
					return found, err
				}
			}
		} else {
			m.Token = 0
		}
		if n.until != 0 {
			m.Fixed, m.Left = true, max(n.left(now), 0)
		}
		found.Kind, found.Capacity = n.kind, n.capacity
		found.Members = append(found.Members, m.Member)
	}
	if set.inForce {
		found.Kind, found.Capacity, found.Resized = driver.Semaphore, set.capacity, set.kept
	}
	if d.names.barriers && found.Kind == driver.Barrier { // its nodes have no numbers
		slices.SortFunc(found.Members, func(a, b driver.Member) int { return cmp.Compare(a.Token, b.Token) })
	}
	return found, nil
}

type entry struct {
	driver.Member
	told bool
}

func member(n *name, c content) entry {
	m, ours := decode(c.Data)
	if !ours && string(c.Data) != revocation { // which is in the place of what was there
		m.Owner = strings.ToValidUTF8(string(c.Data), "\uFFFD")
	}
	out := driver.Member{
		ID: n.id, Owner: m.Owner, Note: m.Note, Units: n.units, Token: joined(c),
		Since: time.UnixMilli(c.Stat.Ctime), Left: m.TTL, Foreign: !ours,
	}
	if m.Joined != 0 {
		out.Since = time.UnixMilli(m.Joined)
	}
	if m.Token != 0 {
		out.Token = m.Token
	}
	return entry{out, m.Token != 0}
}

func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return func(yield func(driver.Queue, error) bool) {
		l, err := d.link(ctx)
		if err != nil {
			yield(driver.Queue{}, err)
			return
		}
		ctx, cancel := d.bound(ctx)
		defer cancel()
		if err := l.CatchUp(ctx, d.top()); err != nil {
			yield(driver.Queue{}, d.failed(err))
			return
		}
		names, err := d.walk(ctx, l, d.top(), "", prefix)
		if err != nil {
			yield(driver.Queue{}, d.failed(err))
			return
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if driver.CheckName(name) != nil {
				continue // it is no name of ours
			}
			q := d.lane(name)
			all, set, version, read, err := d.lineup(ctx, l, q, false)
			if err == nil && len(all) == 0 {
				continue
			}
			var found driver.Queue
			if err == nil {
				found, err = d.members(ctx, l, q, all, set, map[string]entry{}, false)
				found.Version, found.Read = version, read
			}
			if err == nil && len(found.Members) == 0 || errors.Is(err, zk.ErrNoAuth) {
				continue
			}
			if !yield(found, d.failed(err)) || err != nil {
				return
			}
		}
	}
}

func (d *Driver) walk(ctx context.Context, l *link, path, name, prefix string) (names []string, err error) {
	c, err := l.List(ctx, path, false)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) && name != "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tickets := false
	for _, node := range c.Names {
		if _, ok := parse(node); ok {
			tickets = true
			continue
		}
		if isSetting(node) || node == bell {
			continue
		}
		if name == "" && (node == reserved || path == "/" && node == "zookeeper") {
			continue
		}
		next := unescape(node)
		if name != "" {
			next = name + "/" + next
		}
		if !strings.HasPrefix(next, prefix) && !strings.HasPrefix(prefix, next+"/") {
			continue
		}
		more, err := d.walk(ctx, l, strings.TrimRight(path, "/")+"/"+node, next, prefix)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	if _, ok := memberID(path[strings.LastIndexByte(path, '/')+1:]); ok && d.names.barriers && c.Stat.EphemeralOwner != 0 && c.Stat.EphemeralOwner != containerOwner {
		name, tickets = name[:max(strings.LastIndexByte(name, '/'), 0)], true
	}
	if semaphore, ok := d.semaphoreOf(name, c.Names); ok {
		name, tickets = semaphore, true
	}
	if tickets && name != "" && strings.HasPrefix(name, prefix) {
		names = append(names, name)
	}
	return names, nil
}
