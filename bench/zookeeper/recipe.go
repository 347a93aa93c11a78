package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/bench/workload"
)

// recipe locks as go-zookeeper does itself.
type recipe struct{ conn *zk.Conn }

func openRecipe(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(ctx context.Context, o workload.Options) (workload.Client, error) {
		conn, err := connect(ctx, url, o.TTL)
		if err != nil {
			return nil, err
		}
		return recipe{conn}, nil
	}
}

func (r recipe) Close() error {
	r.conn.Close()
	return nil
}

// tickets number the locks, so that those who wait can be told apart.
var tickets atomic.Int64

// Lock knows no context: what ends the wait is the end of the connection.
func (r recipe) Lock(name string) workload.Lock {
	return func(ctx context.Context) (workload.Held, error) {
		stop := context.AfterFunc(ctx, r.conn.Close)
		defer stop()
		h := recipeHeld{zk.NewLock(r.conn, "/"+name, everybody), strconv.FormatInt(tickets.Add(1), 36)}
		if err := h.l.LockWithData([]byte(h.ticket)); err != nil {
			return nil, errors.Join(err, ctx.Err())
		}
		return h, nil
	}
}

type recipeHeld struct {
	l      *zk.Lock
	ticket string // the data of its node
}

func (h recipeHeld) Release() error { return h.l.Unlock() }
func (h recipeHeld) Ticket() string { return h.ticket }

// Waiting lists all but the first one.
func (r recipe) Waiting(_ context.Context, name string) ([]string, error) {
	parent := "/" + name
	nodes, _, err := r.conn.Children(parent)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	var mu sync.Mutex
	who := map[string]string{}
	err = each(nodes, func(node string) error {
		data, _, err := r.conn.Get(parent + "/" + node)
		mu.Lock()
		defer mu.Unlock()
		who[node] = string(data)
		return err
	})
	var waiting []string
	for _, node := range nodes[min(1, len(nodes)):] {
		waiting = append(waiting, who[node])
	}
	return waiting, err
}

// number is what the server has put at the end of a name.
func number(node string) string { return node[len(node)-10:] }
