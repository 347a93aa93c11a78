package curator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

const (
	cellValue   = 'v'
	cellDeleted = 'd'
)

func (d *Driver) cellPath(name string) string { return d.aside("cells", flat(name)) }

func cellOf(path string, c content) (driver.Cell, error) {
	out := driver.Cell{Version: uint64(c.Stat.Mzxid)}
	switch {
	case len(c.Data) > 0 && c.Data[0] == cellValue && len(c.Data) <= 1+driver.MaxCell:
		out.Exists, out.Value = true, c.Data[1:]
	case string(c.Data) != string(cellDeleted):
		return driver.Cell{}, driver.Permanent(fmt.Errorf("zookeeper: %s is no value as it was written (zkCli.sh: set %s %c deletes it)", path, path, cellDeleted))
	}
	return out, nil
}

func (d *Driver) Load(ctx context.Context, name string) (driver.Cell, error) {
	if path, ok := d.barrier(name); ok {
		return d.loadBarrier(ctx, path)
	}
	if q, ok := d.roundOf(name); ok {
		return d.loadRound(ctx, q)
	}
	path := d.cellPath(name)
	l, err := d.link(ctx)
	if err != nil {
		return driver.Cell{}, err
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	if err := l.CatchUp(ctx, path); err != nil {
		return driver.Cell{}, d.failed(err)
	}
	c, err := l.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return driver.Cell{}, nil
	}
	if err != nil {
		return driver.Cell{}, d.failed(err)
	}
	return cellOf(path, c)
}

func (d *Driver) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		names, err := d.cells(ctx, prefix)
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

func (d *Driver) cells(ctx context.Context, prefix string) (names []string, err error) {
	l, err := d.link(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	if err := l.CatchUp(ctx, d.top()); err != nil {
		return nil, d.failed(err)
	}
	all, err := l.List(ctx, d.aside("cells"), false)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, d.failed(err)
	}
	for _, node := range all.Names {
		name, path := unflat(node), d.aside("cells", node)
		if !strings.HasPrefix(name, prefix) || driver.CheckCell(name) != nil {
			continue
		}
		c, err := l.Get(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		case err != nil:
			return nil, d.failed(err)
		default:
			if cell, err := cellOf(path, c); err == nil && cell.Exists {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (d *Driver) Swap(ctx context.Context, w driver.Swap) (driver.Cell, error) {
	path, isBarrier := d.barrier(w.Name)
	round, isRound := d.roundOf(w.Name)
	if !isBarrier && !isRound {
		path = d.cellPath(w.Name)
	}
	l, err := d.link(ctx)
	if err != nil {
		return driver.Cell{}, err
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	if isRound {
		c, err := d.beginRound(ctx, l, round, &w)
		return c, d.failed(err)
	}
	if isBarrier {
		c, err := d.swapBarrier(ctx, l, path, &w)
		d.forgetSwaps(l)
		return c, d.failed(err)
	}
	done, err := d.swap(ctx, l, path, &w)
	d.forgetSwaps(l)
	if err != nil {
		return driver.Cell{}, d.failed(err)
	}
	d.sweepSwaps(ctx, l, done.Ctime)
	return result(done, &w), nil
}

func (d *Driver) swap(ctx context.Context, l *link, path string, w *driver.Swap) (*zk.Stat, error) {
	marker := d.aside("swaps", w.ID)
	data := []byte{cellDeleted}
	if !w.Delete {
		data = append([]byte{cellValue}, w.Value...)
	}
	for attempts := 0; ; attempts++ {
		if done, err := l.Get(ctx, marker); err == nil {
			return done.Stat, nil
		} else if !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		c, err := l.Get(ctx, path)
		remember := &zk.Create{Path: marker, Acl: d.acl, Flags: zk.Persistent}
		var change any
		switch {
		case errors.Is(err, zk.ErrNoNode) && w.Version == 0:
			change = &zk.Create{Path: path, Data: data, Acl: d.acl, Flags: zk.Persistent}
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return nil, err
		case err != nil || uint64(c.Stat.Mzxid) != w.Version:
			if attempts > 0 {
				return nil, driver.ErrConflict
			}
			if err := l.CatchUp(ctx, path); err != nil {
				return nil, err
			}
			continue
		default:
			change = &zk.Write{Path: path, Data: data, Version: c.Stat.Version}
		}
		_, err = l.Multi(ctx, remember, change)
		switch {
		case err == nil:
			done, err := l.Get(ctx, marker)
			if err != nil {
				return nil, err
			}
			d.remember(w.ID)
			return done.Stat, nil
		case errors.Is(err, zk.ErrNoNode) && attempts < 5:
			if err := d.lay(ctx, l, d.aside("swaps"), false); err != nil {
				return nil, err
			}
			if err := d.lay(ctx, l, d.aside("cells"), false); err != nil {
				return nil, err
			}
		case errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion):
			if attempts > 5 {
				return nil, driver.ErrConflict
			}
		default:
			return nil, err
		}
	}
}

func result(marker *zk.Stat, w *driver.Swap) driver.Cell {
	c := driver.Cell{Version: uint64(marker.Czxid), Exists: !w.Delete}
	if c.Exists {
		c.Value = w.Value
	}
	return c
}

type swapped struct {
	id string
	at driver.Instant
}

func (d *Driver) remember(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.swaps = append(d.swaps, swapped{id, d.Now()})
}

func (d *Driver) forgetSwaps(l *link) {
	before := d.Now().Add(-d.memory)
	d.mu.Lock()
	n := 0
	for n < len(d.swaps) && d.swaps[n].at < before {
		n++
	}
	old := d.swaps[:n]
	d.swaps = d.swaps[n:]
	d.mu.Unlock()
	if n == 0 {
		return
	}
	d.background(func(ctx context.Context) {
		for _, s := range old {
			if err := l.Remove(ctx, d.aside("swaps", s.id)); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return
			}
		}
	})
}

const (
	sweepEvery = time.Minute
	sweepMost  = 64 // markers that are looked at: those of clients that are at work are many
	sweepFirst = 250 * time.Millisecond
)

func (d *Driver) sweepSwaps(ctx context.Context, l *link, present int64) {
	d.mu.Lock()
	now := d.Now()
	first := d.swept == 0
	due := first || now.Sub(d.swept) > sweepEvery
	if due {
		d.swept = now
	}
	d.mu.Unlock()
	if !due {
		return
	}
	done := make(chan struct{})
	if !d.background(func(ctx context.Context) { defer close(done); d.removeSwaps(ctx, l, present) }) || !first {
		return
	}
	select {
	case <-done:
	case <-time.After(sweepFirst):
	case <-ctx.Done():
	}
}

func (d *Driver) removeSwaps(ctx context.Context, l *link, present int64) {
	all, err := l.List(ctx, d.aside("swaps"), false)
	if err != nil {
		return
	}
	d.mu.Lock()
	own := make(map[string]bool, len(d.swaps))
	for _, s := range d.swaps {
		own[s.id] = true
	}
	d.mu.Unlock()
	all.Names = slices.DeleteFunc(all.Names, func(id string) bool { return own[id] })
	rand.Shuffle(len(all.Names), func(i, j int) { all.Names[i], all.Names[j] = all.Names[j], all.Names[i] })
	oldest := present - d.memory.Milliseconds()
	var looks sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, name := range all.Names[:min(len(all.Names), sweepMost)] {
		slots <- struct{}{}
		looks.Go(func() {
			defer func() { <-slots }()
			path := d.aside("swaps", name)
			if c, err := l.Get(ctx, path); err == nil && c.Stat.Ctime < oldest {
				_ = l.Remove(ctx, path)
			}
		})
	}
	looks.Wait()
}

func (d *Driver) Watch(ctx context.Context, name string, after uint64) (found driver.Cell, err error) {
	if path, ok := d.barrier(name); ok {
		return d.watchBarrier(ctx, path, after)
	}
	if q, ok := d.roundOf(name); ok {
		return d.watchRound(ctx, q, after)
	}
	path := d.cellPath(name)
	first := true
	err = d.retrying(ctx, func(ctx context.Context, l *link) (bool, error) {
		bell := make(chan struct{}, 1)
		w := l.watch(path, false, bell)
		defer l.Ignore(w)
		found, err = watched(ctx, l, path)
		if err == nil && found.Version != after && (first || found.Version < after) {
			first = false
			if err = l.CatchUp(ctx, path); err == nil {
				found, err = watched(ctx, l, path)
			}
		}
		if errors.Is(err, zk.ErrNoNode) {
			return false, nil
		}
		if err != nil || found.Version != after {
			return err == nil, err
		}
		return false, pause(ctx, bell, 0)
	})
	return found, err
}

func watched(ctx context.Context, l *link, path string) (driver.Cell, error) {
	stat, err := l.Exists(ctx, path)
	if err != nil || stat == nil {
		return driver.Cell{}, err
	}
	c, err := l.Get(ctx, path)
	if err != nil {
		return driver.Cell{}, err
	}
	return cellOf(path, c)
}
