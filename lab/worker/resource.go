package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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

// Progress implements Resource.
func (c *Counters) Progress() error { c.told.Add(1); return nil }

// Read implements Resource.
func (c *Counters) Read(object string, token uint64) (value uint64, taken bool, err error) {
	taken, err = c.checked(object, token, func() { value = c.values[object] })
	return value, taken, err
}

// Write implements Resource.
func (c *Counters) Write(k history.Key, object string, token, base, value uint64) (bool, error) {
	e := history.Event{
		Worker: k.Worker, G: k.G, N: k.N, Object: object, Token: token, Value: fmt.Sprint(value), Ver: base,
		Kind: history.Refuse,
	}
	taken, err := c.checked(object, token, func() {
		e.T, e.Kind = c.Now(), history.Accept
		if c.values == nil {
			c.values = map[string]uint64{}
		}
		c.values[object] = value
		c.Log.Write(e)
	})
	if !taken {
		e.T = c.Now()
		c.Log.Write(e)
	}
	return taken, err
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
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go c.serve(conn)
	}
}

func (c *Counters) serve(conn net.Conn) {
	defer conn.Close()
	dec, enc := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var q request
		if dec.Decode(&q) != nil {
			return
		}
		var a reply
		switch q.What {
		case "read":
			a.Value, a.Taken, _ = c.Read(q.Object, q.Token)
		case "write":
			a.Taken, _ = c.Write(q.Key, q.Object, q.Token, q.Base, q.Value)
		default:
			_ = c.Progress()
		}
		if enc.Encode(a) != nil {
			return
		}
	}
}
