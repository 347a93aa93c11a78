package zk

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/go-zookeeper/zk"
)

// hosts are the servers of the URL, in an order of chance, by all addresses of their names.
// A name that cannot be resolved now, such as that of a server that is being
// replaced, is kept: it is looked up again whenever its turn comes.
type hosts struct {
	ttl       func() time.Duration // that was granted
	left      atomic.Bool          // the client is closed: it sees that where it rests
	mu        sync.Mutex
	addresses []address
	turn      int
	connected int       // the one that the client was connected to last; -1: none yet
	since     time.Time // it was connected then; zero once another connection was tried
	lost      time.Time // a connection that had lasted was found to have ended
	tries     int       // since a server was connected
}

// address is one of a server that the URL calls by this name.
type address struct{ addr, name string }

const (
	lookUpWithin = 3 * time.Second
	clientRest   = time.Second // as go-zookeeper does it
)

// Init is called by the client before anything else. It fails if no name can be resolved.
func (h *hosts) Init(servers []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookUpWithin)
	defer cancel()
	all, errs := make([][]address, len(servers)), make([]error, len(servers))
	var lookUps sync.WaitGroup
	for i, server := range servers {
		lookUps.Go(func() {
			name, port, err := net.SplitHostPort(server)
			if err != nil {
				errs[i] = err
				return
			}
			ips, err := net.DefaultResolver.LookupHost(ctx, name)
			if errs[i] = err; err != nil {
				all[i] = []address{{server, name}}
			}
			for _, ip := range ips {
				all[i] = append(all[i], address{net.JoinHostPort(ip, port), name})
			}
		})
	}
	lookUps.Wait()
	if !slices.Contains(errs, nil) {
		return errors.Join(errs...)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addresses, h.turn, h.connected = slices.Concat(all...), -1, -1
	rand.Shuffle(len(h.addresses), func(i, j int) { h.addresses[i], h.addresses[j] = h.addresses[j], h.addresses[i] })
	return nil
}

func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.addresses)
}

// Next is the server to try next. A server without others is tried again at once when its
// connection has ended. After all of them there is a rest, which spares servers that do not serve:
// a short one while leases may be saved, half of the TTL, and then that of the client.
func (h *hosts) Next() (address string, clientRests bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn = (h.turn + 1) % len(h.addresses)
	h.tries++
	lasted := !h.since.IsZero() && time.Since(h.since) > clientRest
	if lasted {
		h.lost = time.Now()
	}
	rest := h.turn == h.connected && !(len(h.addresses) == 1 && lasted)
	h.since = time.Time{}
	if h.connected < 0 {
		h.connected = 0
	}
	if h.left.Load() {
		return h.addresses[h.turn].addr, true
	}
	if ttl := h.ttl(); rest && time.Since(h.lost) < ttl/2 {
		time.Sleep(min(ttl/40, clientRest))
		rest = false
	}
	return h.addresses[h.turn].addr, rest
}

// dial connects with a patience that follows the TTL, and grows from try to try: the kernel asks
// a network that was down for a moment again a second later, which leases may not have.
func (h *hosts) dial(dial Dialler) Dialler {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		h.mu.Lock()
		if !h.lost.IsZero() {
			timeout = min(timeout, max(h.ttl()/32, 50*time.Millisecond)<<min(h.tries, 8))
		}
		h.mu.Unlock()
		return dial(network, address, timeout)
	}
}

// name is what the URL calls the server to which the client connects now.
func (h *hosts) name() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.addresses[h.turn].name
}

// leave closes the client of these servers.
func (h *hosts) leave(conn *client.Conn) {
	h.left.Store(true)
	conn.Close()
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connected, h.since, h.tries = h.turn, time.Now(), 0
}
