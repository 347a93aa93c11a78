package mysqllock

import (
	"bytes"
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/interlock-go/interlock/driver"
)

// unguarded follows a network's name where everybody of this machine, or of the network, can have answered.
const unguarded = ", unguarded"

// plainConn is such a connection without TLS. It does not ask the server for the key by
// which a password is encrypted: whoever answers in its place would name a key of his own, and
// have the password. MySQL's own client does not ask for it either.
type plainConn struct {
	net.Conn
	asked bool // it was about to
}

// errKey is a server that wants the password in a form that it can read.
var errKey = driver.Permanent(errors.New("the server wants the password, encrypted with a key that it names, and nothing proves who it is: " +
	"use tls=true, or allow it by get_server_public_key=true"))

func dialPlain(ctx context.Context, network, addr string) (net.Conn, error) {
	made, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w := &plainConn{Conn: made}
	*ctx.Value(dialed{}).(*net.Conn) = w
	return w, nil
}

// Write sends a packet: three bytes of length, a number, which is 0 in a command and not in an answer to
// the server's greeting, and the rest.
func (w *plainConn) Write(b []byte) (int, error) {
	if len(b) > 4 && b[3] != 0 {
		asks := len(b) == 5 && (b[4] == 1 || b[4] == 2) || b[3] == 1 && bytes.Contains(b, []byte("sha256_password\x00"))
		if asks && !bytes.Contains(b, []byte("caching_sha2_password\x00")) {
			w.asked = true
			return 0, errKey
		}
	}
	return w.Conn.Write(b)
}

// SyscallConn is for the MySQL driver, which looks whether the server has closed a connection before it uses it again.
func (w *plainConn) SyscallConn() (syscall.RawConn, error) {
	return w.Conn.(syscall.Conn).SyscallConn()
}
