package zk

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Servers is the servers of a URL, and how they are reached.
type Servers struct {
	Hosts    []string      // each with its port
	Auth     string        // user:password of the scheme digest
	Patience time.Duration // for a session
	TLS      *tls.Config   // nil: none
	Dial     Dialler       // nil: TCP
}

// Dialler connects to an address.
type Dialler func(network, address string, timeout time.Duration) (net.Conn, error)

// Dialler connects to an address of the server that the URL calls so. With TLS the server has to
// prove this name: who answers for the name chooses the address.
func (s *Servers) Dialler(name func() string) Dialler {
	switch {
	case s.TLS != nil:
		return func(network, address string, timeout time.Duration) (net.Conn, error) {
			t := s.TLS.Clone()
			if t.ServerName == "" {
				t.ServerName = name()
			}
			tcp, err := net.DialTimeout(network, address, timeout)
			if err != nil {
				return nil, err
			}
			// A server that is busy takes longer for a handshake than for a connection. Where there are
			// others to try, it has its share of the time.
			ctx, cancel := context.WithTimeout(context.Background(), max(timeout, s.Patience/time.Duration(len(s.Hosts))))
			defer cancel()
			conn := tls.Client(tcp, t)
			if err := conn.HandshakeContext(ctx); err != nil {
				_ = tcp.Close()
				return nil, err
			}
			return conn, nil
		}
	case s.Dial != nil:
		return s.Dial
	}
	return net.DialTimeout
}
