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

	mu     sync.Mutex
	values map[string]uint64
	fences fence.Memory
	told   atomic.Int64
}

// Told is how often workers have said that they make progress.
func (c *Counters) Told() int64 { return c.told.Load() }

// An Ask is what a worker wants of a value.
type Ask struct {
	Key         history.Key
	Object      string
	Token       uint64 // 0: none; another one keeps smaller ones out from then on
	Base, Value uint64
}

// An Answer is a value, and whether the token was taken.
type Answer struct {
	Value uint64
	Taken bool
}

// Progress implements Resource.
func (c *Counters) Progress(Ask, *Answer) error { c.told.Add(1); return nil }

// Read implements Resource.
func (c *Counters) Read(q Ask, a *Answer) (err error) {
	a.Taken, err = c.checked(q.Object, q.Token, func() { a.Value = c.values[q.Object] })
	return err
}

// Write implements Resource.
func (c *Counters) Write(q Ask, a *Answer) (err error) {
	e := history.Event{
		Worker: q.Key.Worker, G: q.Key.G, N: q.Key.N, Object: q.Object, Token: q.Token, Value: fmt.Sprint(q.Value),
		Ver: q.Base, Kind: history.Refuse,
	}
	a.Taken, err = c.checked(q.Object, q.Token, func() {
		e.T, e.Kind = c.Now(), history.Accept
		if c.values == nil {
			c.values = map[string]uint64{}
		}
		c.values[q.Object] = q.Value
		c.Log.Write(e)
	})
	if !a.Taken {
		e.T = c.Now()
		c.Log.Write(e)
	}
	return err
}

// checked does something if the token is not too old.
func (c *Counters) checked(object string, token uint64, do func()) (taken bool, err error) {
	f := func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		do()
		return nil
	}
	if token == 0 {
		return true, f()
	}
	err = c.fences.Do(context.Background(), object, fence.Token(token), f)
	if errors.Is(err, fence.ErrStale) {
		return false, nil
	}
	return err == nil, err
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

func (r remote) Read(q Ask, a *Answer) error     { return r.Call("Resource.Read", q, a) }
func (r remote) Write(q Ask, a *Answer) error    { return r.Call("Resource.Write", q, a) }
func (r remote) Progress(q Ask, a *Answer) error { return r.Call("Resource.Progress", q, a) }
