package curator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
)

// With barrier=curator, the cell of a barrier is the node at its name, as in Curator's
// DistributedBarrier: the barrier is closed as long as the node exists.

// barrier returns the node of a barrier whose cell has this name.
func (d *Driver) barrier(cell string) (path string, ok bool) {
	name, ok := strings.CutSuffix(cell, "/barrier")
	if !ok || !d.names.barriers || driver.CheckName(name) != nil {
		return "", false
	}
	return d.node(name), true
}

// containers have this in place of the session that owns them.
const containerOwner = -1 << 63

// barrierOf reads a barrier. A node that something else has made is none: a queue, or a
// node above others.
func barrierOf(path string, stat *zk.Stat) (driver.Cell, error) {
	switch {
	case stat == nil:
		return driver.Cell{}, nil
	case stat.EphemeralOwner == containerOwner || stat.NumChildren > 0:
		return driver.Cell{}, driver.Permanent(fmt.Errorf("zookeeper: %s is no barrier: other names are there, or below it", path))
	}
	return driver.Cell{Version: uint64(stat.Czxid), Exists: true}, nil
}

func (d *Driver) loadBarrier(ctx context.Context, path string) (driver.Cell, error) {
	l, err := d.link(ctx)
	if err != nil {
		return driver.Cell{}, err
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	if err := l.CatchUp(ctx, path); err != nil {
		return driver.Cell{}, d.failed(err)
	}
	stat, err := l.Exists(ctx, path)
	if err != nil {
		return driver.Cell{}, d.failed(err)
	}
	return barrierOf(path, stat)
}

// swapBarrier makes or removes the node, and in the same transaction a marker by which a
// repetition is known.
func (d *Driver) swapBarrier(ctx context.Context, l *link, path string, w *driver.Swap) (driver.Cell, error) {
	marker := d.aside("swaps", w.ID)
	for attempts := 0; ; attempts++ {
		if err := l.CatchUp(ctx, path); err != nil {
			return driver.Cell{}, err
		}
		if done, err := l.Get(ctx, marker); err == nil {
			return driver.Cell{Version: uint64(done.Stat.Czxid), Exists: !w.Delete}, nil
		} else if !errors.Is(err, zk.ErrNoNode) {
			return driver.Cell{}, err
		}
		stat, err := l.Exists(ctx, path)
		if err != nil {
			return driver.Cell{}, err
		}
		now, err := barrierOf(path, stat)
		if err != nil {
			return driver.Cell{}, err
		}
		if now.Version != w.Version || now.Exists != w.Delete {
			return driver.Cell{}, driver.ErrConflict
		}
		var change any = &zk.Create{Path: path, Acl: d.acl, Flags: zk.Persistent}
		if w.Delete {
			change = &zk.Delete{Path: path, Version: stat.Version}
		}
		_, err = l.Multi(ctx, &zk.Create{Path: marker, Acl: d.acl, Flags: zk.Persistent}, change)
		switch {
		case err == nil:
			d.remember(w.ID)
		case errors.Is(err, zk.ErrNoNode) && attempts < 5: // what is above may be missing
			if err := d.lay(ctx, l, d.aside("swaps"), false); err != nil {
				return driver.Cell{}, err
			}
			if above := parent(path); above != "" {
				if err := d.lay(ctx, l, above, len(above) > len(d.root)); err != nil {
					return driver.Cell{}, err
				}
			}
		case errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNotEmpty):
			if attempts > 5 {
				return driver.Cell{}, driver.ErrConflict
			}
		default:
			return driver.Cell{}, err
		}
	}
}

func (d *Driver) watchBarrier(ctx context.Context, path string, after uint64) (found driver.Cell, err error) {
	err = d.retrying(ctx, func(ctx context.Context, l *link) (bool, error) {
		bell := make(chan struct{}, 1)
		w := l.watch(path, false, bell)
		defer l.Ignore(w)
		stat, err := l.Exists(ctx, path)
		if err != nil {
			return false, err
		}
		if found, err = barrierOf(path, stat); err != nil || found.Version != after {
			return err == nil, err
		}
		return false, pause(ctx, bell, 0)
	})
	return found, err
}
