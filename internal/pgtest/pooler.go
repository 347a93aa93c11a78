package pgtest

import (
	"encoding/binary"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Pooler is a PgBouncer in front of a server: it gives a client a connection to the
// server for one transaction at a time.
type Pooler struct {
	*testserver.Server

	server *Server
}

// StartPooler starts a pooler for a server, which ends with the test. It lets in
// the superuser only. The settings are lines of its configuration, such as
// "default_pool_size = 4".
func StartPooler(t testing.TB, s *Server, settings ...string) *Pooler {
	p := &Pooler{server: s}
	p.Server = testserver.NewServer(t.TempDir(), testserver.Program{
		Name: "pgbouncer",
		Configure: func() error {
			if err := admit(p.Dir); err != nil {
				return err
			}
			lines := append([]string{
				"[databases]", fmt.Sprintf("* = host=127.0.0.1 port=%d", s.Port),
				"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", p.Port), "unix_socket_dir =",
				"auth_type = trust", "auth_file = " + p.Path("users"), "admin_users = " + Superuser,
				"pool_mode = transaction", "max_client_conn = 1000", "default_pool_size = 10", "server_login_retry = 1",
			}, settings...)
			users := []string{fmt.Sprintf("%q \"\"", Superuser)}
			return write(p.Server, map[string][]string{"users": users, "pgbouncer.ini": lines})
		},
		Command: func() (*exec.Cmd, error) { return program("pgbouncer", p.Path("pgbouncer.ini")) },
		Ready: func(int) (bool, error) {
			_, err := psql(p.Dir, p.URL(), "SELECT 1")
			return err == nil, nil
		},
	})
	testserver.Start(t, p)
	return p
}

// URL is that of the superuser, through the pooler.
func (p *Pooler) URL() string { return strings.Replace(p.server.URL(), p.server.Addr, p.Addr, 1) }

// Proxy stands between clients and a server, or a pooler, and loses notifications on purpose.
type Proxy struct {
	*testserver.Interceptor[byte] // all that the server sends, by the letter of its kind

	drop   atomic.Bool
	passed atomic.Int64
}

// NewProxy starts a proxy for the server at the address target. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	p := &Proxy{}
	p.Interceptor = testserver.Intercept(t, target, messages, func(_ bool, kind byte) (drop bool) {
		if kind == 'A' && !p.drop.Load() {
			p.passed.Add(1)
		}
		return kind == 'A' && p.drop.Load()
	})
	return p
}

// messages are those of the server: a letter, and the length of the rest in four bytes, these included.
func messages() func(reply bool, b []byte) (kind byte, n int) {
	return func(reply bool, b []byte) (byte, int) {
		switch {
		case !reply:
			return 0, -1
		case len(b) < 5 || len(b) <= int(binary.BigEndian.Uint32(b[1:])):
			return 0, 0
		}
		return b[0], 1 + int(binary.BigEndian.Uint32(b[1:]))
	}
}

// DropNotifications drops what NOTIFY sends on its way to the clients, or lets it
// pass again.
func (p *Proxy) DropNotifications(yes bool) { p.drop.Store(yes) }

// Notifications is how many have passed.
func (p *Proxy) Notifications() int { return int(p.passed.Load()) }
