package zk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/internal/tlsoption"
)

// failures remember why servers could not be reached. The client only tries
// again.
type failures struct {
	mu      sync.Mutex
	refused map[string]bool // by address; one that is silent may be slow
	silent  bool            // the connection that ends next had no answer
	last    error
	most    int
	give    func()
}

// listened is a connection of which it is noted that a server does not answer.
type listened struct {
	net.Conn
	f *failures
}

func (l listened) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if late := (net.Error)(nil); errors.As(err, &late) && late.Timeout() {
		l.f.mu.Lock()
		l.f.silent = true
		l.f.mu.Unlock()
	}
	return n, err
}

func (f *failures) dial(dial Dialler) Dialler {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		c, err := dial(network, address, timeout)
		if err != nil {
			f.failed(address, fmt.Errorf("connect to %s: %w%s", address, err, hint(err)))
			return nil, err
		}
		return listened{c, f}, nil
	}
}

// hint says what it may mean that a server ends a connection as soon as it has begun. Only
// TLS reads anything before the session is asked for.
func hint(err error) string {
	if text := tlsoption.Hint(err); text != "" {
		return " (" + text + ")"
	}
	if errors.Is(err, io.EOF) {
		return " (if the port is one without TLS, write zk://)"
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return " (perhaps it has as many connections from this machine as its maxClientCnxns allows)"
	}
	return ""
}

func (f *failures) failed(server string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = err
	if f.refused == nil {
		f.refused = map[string]bool{}
	}
	f.refused[server] = true
	if f.give != nil && len(f.refused) >= f.most {
		f.give()
	}
}

// event notes servers that accept connections and grant no session.
func (f *failures) event(e client.Event) {
	if e.Type != client.EventSession || e.State != client.StateDisconnected {
		return
	}
	f.mu.Lock()
	silent := f.silent
	f.silent = false
	if silent {
		f.last = fmt.Errorf("%s accepts connections and does not answer (it may be busy, or expect TLS, as with zks://)", e.Server)
	}
	f.mu.Unlock()
	if !silent {
		f.failed(e.Server, fmt.Errorf("%s granted no session (it has no quorum, or expects TLS, as with zks://, or has as many connections from this machine as its maxClientCnxns allows)", e.Server))
	}
}

// await calls give once each server has refused.
func (f *failures) await(servers int, give func()) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most, f.give = servers, give
	if len(f.refused) >= f.most {
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
