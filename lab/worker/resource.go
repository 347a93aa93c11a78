package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/lab/history"
)

// Counters is the Resource: it keeps counters, checks tokens by package fence, and writes down what it takes.
type Counters struct {
	Log *history.Log
	Now func() int64

	Told atomic.Int64 // how often workers have said that they make progress

	mu     sync.Mutex
	values map[string]uint64
	fences fence.Memory
}

// An Ask is what a worker wants of a value.
type Ask struct {
	Key         history.Key
	Object      string // "": it tells that an operation has succeeded
	Write       bool   // of a Value that was made of Base
	Token       uint64 // 0: none; another one keeps smaller ones out from then on
	Base, Value uint64
}

// An Answer is a value, and whether the token was taken.
type Answer struct {
	Value uint64
	Taken bool
}

// Do implements Resource.
func (c *Counters) Do(q Ask, a *Answer) (err error) {
	if q.Object == "" {
		c.Told.Add(1)
		return nil
	}
	do := func() error { a.Value, a.Taken = c.take(q), true; return nil }
	if q.Token == 0 {
		return do()
	}
	err = c.fences.Do(context.Background(), q.Object, fence.Token(q.Token), do)
	if !errors.Is(err, fence.ErrStale) {
		return err
	}
	if q.Write {
		c.write(q, history.Refuse)
	}
	return nil
}

// take does what is asked for.
func (c *Counters) take(q Ask) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil {
		c.values = map[string]uint64{}
	}
	if q.Write {
		c.values[q.Object] = q.Value
		c.write(q, history.Accept)
	}
	return c.values[q.Object]
}

func (c *Counters) write(q Ask, kind string) {
	c.Log.Write(history.Event{
		T: c.Now(), Worker: q.Key.Worker, G: q.Key.G, N: q.Key.N, Kind: kind, Object: q.Object, Token: q.Token,
		Value: fmt.Sprint(q.Value), Ver: q.Base,
	})
}

// Serve answers workers, until the listener is closed.
func (c *Counters) Serve(l net.Listener) {
	s := rpc.NewServer()
	_ = s.RegisterName("Resource", c)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go s.ServeConn(conn)
	}
}

// A remote is the Resource of the lab, over a socket.
type remote struct{ *rpc.Client }

func (r remote) Do(q Ask, a *Answer) error { return r.Call("Resource.Do", q, a) }
