package testserver

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Filter decides what becomes of the bytes of one direction of a connection.
// It is called with what was just read, which it may keep back in parts.
type Filter func(read []byte) Passed

// Passed is what a Filter lets through.
type Passed struct {
	Bytes  []byte
	Frames int  // how many whole messages they are
	Cut    bool // end the connection after these bytes

	// If it is not nil, wait after these bytes until it is closed, and ask the
	// filter again, with nothing read.
	Wait <-chan struct{}
}

// Traffic is what has passed in one direction, without what was dropped.
type Traffic struct {
	Bytes  int64
	Frames int64 // whole messages
}

// Pass is the Filter that lets everything through.
func Pass(read []byte) Passed { return Passed{Bytes: read} }

type counter struct{ bytes, frames atomic.Int64 }

func (c *counter) add(passed Passed) {
	c.bytes.Add(int64(len(passed.Bytes)))
	c.frames.Add(int64(passed.Frames))
}

func (c *counter) read() Traffic { return Traffic{c.bytes.Load(), c.frames.Load()} }

// link is one connection through a proxy.
type link struct {
	proxy   *Proxy
	client  net.Conn
	gone    chan struct{} // closed by cut
	cutOnce sync.Once
	silent  atomic.Bool
	number  int // of those that were accepted
}

func (k *link) run() {
	p := k.proxy
	defer func() {
		k.cut()
		_ = k.client.Close()
		p.mu.Lock()
		delete(p.links, k)
		p.mu.Unlock()
	}()
	if !k.pass(&p.requests) {
		return
	}
	server, err := k.dial()
	if err != nil {
		return
	}
	defer server.Close()
	requests, replies := p.options.Filters()
	var both sync.WaitGroup
	both.Go(func() { k.pump(server, k.client, requests, &p.requests, &p.toServer) })
	both.Go(func() { k.pump(k.client, server, replies, &p.replies, &p.toClients) })
	ended := make(chan struct{})
	go func() { both.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-k.gone:
		_ = k.client.Close()
		_ = server.Close()
		<-ended
	}
}

// dial connects to the server.
func (k *link) dial() (net.Conn, error) {
	for began := time.Now(); ; {
		server, err := net.Dial("tcp", k.proxy.target)
		if err == nil || time.Since(began) >= k.proxy.options.Patience {
			return server, err
		}
		select {
		case <-k.gone:
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// cut ends the connection, whatever hangs.
func (k *link) cut() { k.cutOnce.Do(func() { close(k.gone) }) }

// pass waits while bytes are held back. It says no if the connection is cut.
func (k *link) pass(direction *chan struct{}) bool {
	if k.silent.Load() {
		<-k.gone
	}
	return k.wait(k.proxy.gate(direction))
}

func (k *link) wait(until <-chan struct{}) bool {
	select {
	case <-k.gone:
		return false
	default:
	}
	select {
	case <-until:
		return true
	case <-k.gone:
		return false
	}
}

// pump forwards one direction until it ends.
func (k *link) pump(to, from net.Conn, filter Filter, direction *chan struct{}, count *counter) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !k.pass(direction) || !k.forward(to, buf[:n], filter, direction, count) {
			return
		}
		if err != nil {
			if half, ok := to.(*net.TCPConn); !ok || half.CloseWrite() != nil {
				k.cut()
			}
			return
		}
	}
}

// forward passes on what was read. It says no if the connection is cut.
func (k *link) forward(to net.Conn, read []byte, filter Filter, direction *chan struct{}, count *counter) bool {
	for {
		passed := filter(read)
		if len(passed.Bytes) > 0 {
			count.add(passed)
			if _, err := to.Write(passed.Bytes); err != nil {
				k.cut()
			}
		}
		if passed.Cut {
			k.cut()
			return false
		}
		if passed.Wait == nil {
			return true
		}
		if !k.wait(passed.Wait) || !k.pass(direction) {
			return false
		}
		read = nil
	}
}
