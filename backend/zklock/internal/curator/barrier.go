package curator

import (
	"context"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// The cell of a barrier is the node at its name: the barrier is closed as long as the node exists.

// barrierOf is the node of a barrier whose cell has this name.
func (ls *Layouts) barrierOf(cell string) (path string, ok bool) {
	name, ok := strings.CutSuffix(cell, "/barrier")
	if !ok || !ls.Barriers || driver.CheckName(name) != nil {
		return "", false
	}
	return ls.Path(name), true
}

// Load reads a cell that has a layout of Curator. Own is false if it has not.
func (ls *Layouts) Load(ctx context.Context, cell string, f exchange.Follower) (c driver.Cell, own bool, err error) {
	path, barrier := ls.barrierOf(cell)
	queue, round := ls.roundOf(cell)
	if !barrier && !round {
		return c, false, nil
	}
	err = ls.With(ctx, func(ctx context.Context, l *zk.Link) (err error) {
		if round {
			c, err = ls.loadRound(ctx, l, queue, f)
			return err
		}
		ls.Follow(f, l, path, false)
		c, _, err = loadBarrier(ctx, l, path)
		return err
	})
	return c, true, err
}

// Swap changes such a cell.
func (ls *Layouts) Swap(ctx context.Context, w *driver.Swap) (c driver.Cell, own bool, err error) {
	path, barrier := ls.barrierOf(w.Name)
	queue, round := ls.roundOf(w.Name)
	if !barrier && !round {
		return c, false, nil
	}
	err = ls.With(ctx, func(ctx context.Context, l *zk.Link) (err error) {
		if round {
			c, err = ls.beginRound(ctx, l, queue, w)
		} else {
			c, err = ls.swapBarrier(ctx, l, path, w)
		}
		return err
	})
	return c, true, err
}

// loadBarrier reads a barrier. A node that something else has made is none: a queue, or a node above others.
func loadBarrier(ctx context.Context, l *zk.Link, path string) (driver.Cell, *zk.Stat, error) {
	if err := l.CatchUp(ctx, path); err != nil {
		return driver.Cell{}, nil, err
	}
	stat, err := l.Exists(ctx, path)
	switch {
	case err != nil || stat == nil:
		return driver.Cell{}, nil, err
	case stat.EphemeralOwner == container || stat.NumChildren > 0:
		err = fmt.Errorf("zookeeper: %s is no barrier: other names are there, or below it", path)
		return driver.Cell{}, nil, driver.Permanent(err)
	}
	return driver.Cell{Version: uint64(stat.Czxid), Exists: true}, stat, nil
}

// swapBarrier makes or removes the node.
func (ls *Layouts) swapBarrier(ctx context.Context, l *zk.Link, path string, w *driver.Swap) (driver.Cell, error) {
	done, err := ls.Store.Swap(ctx, l, w.ID, path, func() (any, error) {
		now, stat, err := loadBarrier(ctx, l, path)
		switch {
		case err != nil:
			return nil, err
		case now.Version != w.Version || now.Exists != w.Delete:
			return nil, driver.ErrConflict
		case w.Delete:
			return &zk.Delete{Path: path, Version: stat.Version}, nil
		}
		return &zk.Create{Path: path, Acl: ls.ACL(), Flags: zk.Persistent}, nil
	})
	if err != nil {
		return driver.Cell{}, err
	}
	return driver.Cell{Version: uint64(done.Czxid), Exists: !w.Delete}, nil
}
