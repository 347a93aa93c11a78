package etcdlock

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// wires are the connections of a client. The library asks for a sign of life after 10 s at the earliest,
// which is too late for a short TTL: so a heartbeat that is not answered in time looks whether one is silent.
type wires struct {
	mu  sync.Mutex
	all map[*wire]bool
}

// wire is a connection.
type wire struct {
	net.Conn
	of    *wires
	asked atomic.Int64 // since when nothing was read though something was written, as a driver.Instant; 0: it is not so
}

func (w *wires) dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k := &wire{Conn: c, of: w}
	w.all[k] = true
	return k, nil
}

func (k *wire) Write(b []byte) (int, error) {
	k.asked.CompareAndSwap(0, int64(driver.Now()))
	return k.Conn.Write(b)
}

func (k *wire) Read(b []byte) (int, error) {
	n, err := k.Conn.Read(b)
	k.asked.Store(0)
	return n, err
}

func (k *wire) Close() error {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	delete(k.of.all, k)
	return k.Conn.Close()
}

// endSilent ends connections that have been silent for a quarter of a TTL, and reports whether there were any. In a
// busy process an answer may have come that nobody has read: its reader has its turn before this goroutine gets another
// one.
func (w *wires) endSilent(ttl time.Duration) (ended bool) {
	silent := func() (some []*wire) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for k := range w.all {
			if since := driver.Instant(k.asked.Load()); since != 0 && driver.Now().Sub(since) > ttl/4 {
				some = append(some, k)
			}
		}
		return some
	}
	if len(silent()) == 0 {
		return false
	}
	time.Sleep(ttl / 48)
	runtime.Gosched()
	for _, k := range silent() {
		_ = k.Close()
		ended = true
	}
	return ended
}
