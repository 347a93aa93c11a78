package testserver

import (
	"context"
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

// Pass is the Filter that lets everything through.
func Pass(read []byte) Passed { return Passed{Bytes: read} }

// direction is one of the two of all connections of a proxy.
type direction struct {
	gate          chan struct{} // closed while bytes flow
	bytes, frames atomic.Int64  // that have passed
}

// link is one connection through a proxy.
type link struct {
	proxy  *Proxy
	number int // of those that were accepted
	client net.Conn
	ctx    context.Context // ends with the connection
	cut    func()          // ends it, whatever hangs
	silent atomic.Bool
}

func (k *link) run() {
	p := k.proxy
	defer p.forget(k)
	defer k.client.Close()
	defer k.cut()
	if !k.pass(&p.toServer) {
		return
	}
	server, err := k.dial()
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(k.ctx, func() {
		_ = k.client.Close()
		_ = server.Close()
	})()
	requests, replies := p.options.Filters()
	var both sync.WaitGroup
	both.Go(func() { k.pump(server, k.client, requests, &p.toServer) })
	both.Go(func() { k.pump(k.client, server, replies, &p.toClients) })
	both.Wait()
}

// dial connects to the server.
func (k *link) dial() (net.Conn, error) {
	for began := time.Now(); ; {
		server, err := net.Dial("tcp", k.proxy.target)
		if err == nil || time.Since(began) >= k.proxy.options.Patience {
			return server, err
		}
		select {
		case <-k.ctx.Done():
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pass waits while bytes are held back. It says no if the connection is cut.
func (k *link) pass(d *direction) bool {
	if k.silent.Load() {
		<-k.ctx.Done()
	}
	return k.wait(k.proxy.gate(d))
}

func (k *link) wait(until <-chan struct{}) bool {
	select {
	case <-until:
	case <-k.ctx.Done():
	}
	return k.ctx.Err() == nil
}

// pump forwards one direction until it ends.
func (k *link) pump(to, from net.Conn, filter Filter, d *direction) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !k.pass(d) || !k.forward(to, buf[:n], filter, d) {
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
func (k *link) forward(to net.Conn, read []byte, filter Filter, d *direction) bool {
	for {
		passed := filter(read)
		if len(passed.Bytes) > 0 {
			d.bytes.Add(int64(len(passed.Bytes)))
			d.frames.Add(int64(passed.Frames))
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
		if !k.wait(passed.Wait) || !k.pass(d) {
			return false
		}
		read = nil
	}
}
