package testserver

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between clients and a server, on a loopback port of its own,
// and disturbs the connections.
type Proxy struct {
	Addr string

	target              string
	options             ProxyOptions
	release             func() // of the port
	toServer, toClients direction
	running             sync.WaitGroup

	mu       sync.Mutex   // also of the gates
	listener net.Listener // nil while connections are refused
	links    map[*link]struct{}
	accepted int // connections
	closed   bool
}

// ProxyOptions are what a proxy does with connections.
type ProxyOptions struct {
	// Filters makes the filters of a new connection. Without it everything passes.
	Filters func() (requests, replies Filter)

	// Patience is for how long a new connection waits for a server that does not
	// listen yet. Without it the connection is closed at once.
	Patience time.Duration
}

// NewProxy starts a proxy for the server at the address target. It ends with the test.
func NewProxy(t testing.TB, target string, options ...ProxyOptions) *Proxy {
	p, err := RunProxy(target, append(options, ProxyOptions{})[0])
	OK(t, err)
	t.Cleanup(p.Close)
	return p
}

// RunProxy starts a proxy. The caller has to Close it.
func RunProxy(target string, options ProxyOptions) (*Proxy, error) {
	if options.Filters == nil {
		options.Filters = func() (requests, replies Filter) { return Pass, Pass }
	}
	p := &Proxy{target: target, options: options, links: map[*link]struct{}{}}
	for _, d := range []*direction{&p.toServer, &p.toClients} {
		d.gate = make(chan struct{})
		close(d.gate)
	}
	port, release, err := Reserve()
	if err != nil {
		return nil, err
	}
	p.Addr, p.release = Address(port), release
	if err := p.listen(); err != nil {
		release()
		return nil, err
	}
	return p, nil
}

// listen starts to accept; p.mu is held, or p is known to its maker only.
func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.Addr)
	if err != nil {
		return err
	}
	p.listener = l
	p.running.Go(func() { p.accept(l) })
	return nil
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // out of files, most likely
			continue
		}
		k := &link{proxy: p, client: client}
		k.ctx, k.cut = context.WithCancel(context.Background())
		p.mu.Lock()
		if p.listener != l {
			_ = client.Close()
		} else {
			p.accepted++
			k.number = p.accepted
			p.links[k] = struct{}{}
			p.running.Go(k.run)
		}
		p.mu.Unlock()
	}
}

func (p *Proxy) forget(k *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, k)
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Refuse(true)
	p.Cut()
	p.running.Wait()
	p.release()
}

// Hang holds back all bytes in both directions, and the end of connections
// too, until Resume. Connections stay, and new ones are accepted.
func (p *Proxy) Hang() { p.shut(&p.toServer, &p.toClients) }

// Late holds back what the server sends, until Resume: requests arrive, and their
// replies are late.
func (p *Proxy) Late() { p.shut(&p.toClients) }

func (p *Proxy) shut(directions ...*direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range directions {
		select {
		case <-d.gate:
			d.gate = make(chan struct{})
		default:
		}
	}
}

// Resume lets the bytes flow again, first those that were held back.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range []*direction{&p.toServer, &p.toClients} {
		select {
		case <-d.gate:
		default:
			close(d.gate)
		}
	}
}

func (p *Proxy) gate(d *direction) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return d.gate
}

// Silence has one of the connections lead nowhere any more, counted from the oldest: it has no end. New ones work.
func (p *Proxy) Silence(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(p.links), func(a, b *link) int { return cmp.Compare(a.number, b.number) })
	if i < len(all) {
		all[i].silent.Store(true)
	}
}

// Cut closes all connections that there are.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		k.cut()
	}
}

// Connections is how many connections of clients there are.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Refuse lets all attempts to connect fail, as if no server listened, or lets
// them succeed again. Connections that there are stay.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case yes && p.listener != nil:
		_ = p.listener.Close()
		p.listener = nil
	case !yes && p.listener == nil && !p.closed:
		err := p.listen()
		for n := 0; err != nil && n < 1000; n++ { // the last listener ends with its Accept, which may be late
			p.mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			p.mu.Lock()
			if p.listener != nil || p.closed {
				return
			}
			err = p.listen()
		}
		if err != nil {
			panic("proxy for " + p.target + ": listen again: " + err.Error())
		}
	}
}

// Traffic is what has passed in one direction, and was not dropped.
type Traffic struct{ Bytes, Frames int64 }

// ToServer is what has passed from the clients to the server.
func (p *Proxy) ToServer() Traffic { return Traffic{p.toServer.bytes.Load(), p.toServer.frames.Load()} }

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
