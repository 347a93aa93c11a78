package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/bench/workload"
)

// bare makes and deletes the node that every lock on ZooKeeper has, and does not
// look whether it is the first one.
type bare struct{ conn *zk.Conn }

func openBare(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(ctx context.Context, o workload.Options) (workload.Client, error) {
		conn, err := connect(ctx, url, o.TTL)
		if err != nil {
			return nil, err
		}
		return bare{conn}, nil
	}
}

func (b bare) Close() error {
	b.conn.Close()
	return nil
}

func (b bare) Lock(name string) workload.Lock {
	parent := "/" + name
	return func(context.Context) (workload.Held, error) {
		node, err := b.create(parent)
		if errors.Is(err, zk.ErrNoNode) {
			if err := makeAll(b.conn, parent); err != nil {
				return nil, err
			}
			node, err = b.create(parent)
		}
		if err != nil {
			return nil, err
		}
		return bareHeld{b.conn, node}, nil
	}
}

func (b bare) create(parent string) (string, error) {
	return b.conn.Create(parent+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, everybody)
}

type bareHeld struct {
	conn *zk.Conn
	node string
}

func (h bareHeld) Release() error { return h.conn.Delete(h.node, -1) }
