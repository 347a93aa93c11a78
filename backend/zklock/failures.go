package zklock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"
)

// failures remember why servers could not be reached. The client only tries
// again.
type failures struct {
	mu    sync.Mutex
	tries int
	last  error
	most  int
	give  func()
}

func (f *failures) dial(dial func(string, string, time.Duration) (net.Conn, error)) func(string, string, time.Duration) (net.Conn, error) {
	if dial == nil {
		dial = net.DialTimeout
	}
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		c, err := dial(network, address, timeout)
		if err != nil {
			f.failed(fmt.Errorf("connect to %s: %w%s", address, err, hint(err)))
		}
		return c, err
	}
}

// hint says what it may mean that a server ends a connection as soon as it has begun.
func hint(err error) string {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return " (perhaps it has as many connections from this machine as its maxClientCnxns allows)"
	}
	return ""
}

func (f *failures) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries++
	f.last = err
	if f.give != nil && f.tries >= f.most {
		f.give()
	}
}

// event counts servers that accept connections and grant no session.
func (f *failures) event(e zk.Event) {
	if e.Type == zk.EventSession && e.State == zk.StateDisconnected {
		f.failed(fmt.Errorf("%s granted no session (it has no quorum, or expects TLS, or has as many connections from this machine as its maxClientCnxns allows)", e.Server))
	}
}

// await calls give once each server has failed.
func (f *failures) await(servers int, give func()) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most, f.give = servers, give
	if f.tries >= f.most {
		give()
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.give = nil
	}
}

func (f *failures) explain(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil {
		return fmt.Errorf("zookeeper: %w", f.last)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("zookeeper: no server has granted a session in time: %w", err)
	}
	return fmt.Errorf("zookeeper: %w", err)
}
