package testserver

import (
	"cmp"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// Proxy stands between clients and a server, on a loopback port of its own,
// and disturbs the connections.
type Proxy struct {
	Addr string

	target    string
	options   ProxyOptions
	release   func() // of the port
	toClients counter
	toServer  counter
	running   sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	links    map[*link]struct{}
	accepted int           // connections
	requests chan struct{} // closed while bytes flow to the server
	replies  chan struct{} // closed while bytes flow to the clients
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

// RunProxy starts a proxy for the server at the address target. The caller has
// to Close it.
func RunProxy(target string, options ProxyOptions) (*Proxy, error) {
	if options.Filters == nil {
		options.Filters = func() (requests, replies Filter) { return Pass, Pass }
	}
	p := &Proxy{target: target, options: options, links: map[*link]struct{}{}, requests: make(chan struct{}), replies: make(chan struct{})}
	close(p.requests)
	close(p.replies)
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

// listen starts to accept; p.mu is held, or nobody knows p yet.
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
		k := &link{proxy: p, client: client, gone: make(chan struct{})}
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
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	shut(&p.requests)
	shut(&p.replies)
}

// Late holds back what the server sends, until Resume: requests arrive, and their
// replies are late.
func (p *Proxy) Late() {
	p.mu.Lock()
	defer p.mu.Unlock()
	shut(&p.replies)
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

// Resume lets the bytes flow again, first those that were held back.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	open(p.requests)
	open(p.replies)
}

// shut makes a gate that is open one that is not.
func shut(gate *chan struct{}) {
	select {
	case <-*gate:
		*gate = make(chan struct{})
	default:
	}
}

func open(gate chan struct{}) {
	select {
	case <-gate:
	default:
		close(gate)
	}
}

// gate is that of one direction.
func (p *Proxy) gate(direction *chan struct{}) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *direction
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

// Refuse lets all attempts to connect fail, as if nobody listened, or lets
// them succeed again. Connections that there are stay.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case yes && p.listener != nil:
		_ = p.listener.Close()
		p.listener = nil
	case !yes && p.listener == nil && !p.closed:
		if err := p.listen(); err != nil {
			panic("proxy for " + p.target + ": listen again: " + err.Error())
		}
	}
}

// ToClients is what has passed from the server to the clients.
func (p *Proxy) ToClients() Traffic { return p.toClients.read() }

// ToServer is what has passed from the clients to the server.
func (p *Proxy) ToServer() Traffic { return p.toServer.read() }
