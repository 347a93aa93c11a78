package pgtest

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Pooler is a PgBouncer in front of a server: it gives a client a connection to the
// server for one transaction at a time.
type Pooler struct {
	*testserver.Server

	server *Server
	lines  []string
}

// pooler is where Debian keeps it, which is not in everybody's path.
const pooler = "/usr/sbin/pgbouncer"

// StartPooler starts a pooler for a server, which ends with the test. It lets in
// the superuser only. The settings are lines of its configuration, such as
// "default_pool_size = 4".
func StartPooler(t testing.TB, s *Server, settings ...string) *Pooler {
	t.Helper()
	p := &Pooler{server: s, lines: settings}
	dir := t.TempDir()
	if err := s.user.admit(dir); err != nil {
		t.Fatal(err)
	}
	p.Server = testserver.NewServer(dir, testserver.Program{
		Name: "pgbouncer", Configure: p.configure, Command: p.command, Ready: p.serves,
	})
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	p.BelongTo(t)
	return p
}

func (p *Pooler) configure() error {
	lines := append([]string{
		"[databases]", fmt.Sprintf("* = host=127.0.0.1 port=%d", p.server.Port),
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", p.Port), "unix_socket_dir =",
		"auth_type = trust", "auth_file = " + p.Path("users"), "admin_users = " + Superuser,
		"pool_mode = transaction", "max_client_conn = 1000", "default_pool_size = 10", "server_login_retry = 1",
	}, p.lines...)
	if err := p.write("users", fmt.Sprintf("%q \"\"\n", Superuser)); err != nil {
		return err
	}
	return p.write("pgbouncer.ini", strings.Join(lines, "\n")+"\n")
}

func (p *Pooler) write(name, text string) error { return writeFor(p.server.user, p.Path(name), text) }

func (p *Pooler) command() (*exec.Cmd, error) {
	path := pooler
	if found, err := exec.LookPath("pgbouncer"); err == nil {
		path = found
	}
	cmd := exec.Command(path, p.Path("pgbouncer.ini"))
	p.server.user.use(cmd)
	return cmd, nil
}

func (p *Pooler) serves(int) func() (bool, error) {
	return func() (bool, error) {
		_, err := p.server.psql(p.URL(), "SELECT 1")
		return err == nil, nil
	}
}

// URL is that of the superuser, through the pooler.
func (p *Pooler) URL() string {
	u := url.URL{Scheme: "postgres", User: url.User(Superuser), Host: p.Addr, Path: "/" + Database, RawQuery: "sslmode=disable"}
	return u.String()
}
