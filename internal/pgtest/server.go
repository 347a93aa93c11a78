package pgtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is one PostgreSQL server.
type Server struct {
	*testserver.Server

	// With TLS: files in PEM form.
	CA, ClientCert, ClientKey string

	set   settings
	bin   string // the folder of the server's programs
	user  account
	clock *testserver.Clock
}

// Superuser may do everything, and Database is there from the start.
const Superuser, Database = "postgres", "postgres"

// Start starts a server that ends with the test. If the test fails, it shows the
// server's log.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return testserver.Start(t, Run, opts)
}

// Run starts a server with its data in dir, which has to exist. The caller has to
// Stop it.
func Run(dir string, opts ...Option) (*Server, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Server{}
	for _, opt := range opts {
		opt(&s.set)
	}
	if s.bin, err = binaries(); err != nil {
		return nil, err
	}
	if s.user, err = unprivileged(); err != nil {
		return nil, err
	}
	if err := s.user.admit(dir); err != nil {
		return nil, err
	}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "postgres", Configure: s.configure, Command: s.command, Ready: s.serves,
		Terminate: interrupt, Quit: quit,
	})
	if err := s.makeData(); err != nil {
		return nil, err
	}
	if s.set.fake {
		if s.clock, err = testserver.NewClock(dir, 0); err != nil {
			return nil, err
		}
	}
	if err := s.Server.Run(); err != nil {
		return nil, err
	}
	for _, sql := range s.set.setup {
		if _, err := s.Exec(Database, sql); err != nil {
			s.Stop()
			return nil, err
		}
	}
	return s, nil
}

func interrupt(p *os.Process) error { return p.Signal(os.Interrupt) }
func quit(p *os.Process) error      { return p.Signal(syscall.SIGQUIT) }

// binaries finds the folder of the server's programs, which Debian keeps out of
// the path, the newest version first.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errors.New("install PostgreSQL (on Debian: apt-get install postgresql)")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func (s *Server) data() string { return s.Path("data") }

func (s *Server) configure() error {
	secure := ""
	if s.set.tls {
		var err error
		if secure, err = s.prepareTLS(); err != nil {
			return err
		}
	}
	if err := s.write("data/postgresql.auto.conf", s.set.file(s.Port, s.Dir)+secure); err != nil {
		return err
	}
	return s.write("data/pg_hba.conf", s.set.hba())
}

// write makes a file that the server may read.
func (s *Server) write(name, text string) error { return writeFor(s.user, s.Path(name), text) }

func writeFor(user account, path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return user.own(path)
}

func (s *Server) command() (*exec.Cmd, error) {
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data())
	s.user.use(cmd)
	if s.clock != nil {
		cmd.Env = append(os.Environ(), s.clock.Env()...)
	}
	return cmd, nil
}

// serves finds out whether the process with this id answers queries.
func (s *Server) serves(pid int) func() (bool, error) {
	return func() (bool, error) {
		b, err := os.ReadFile(s.Path("data/postmaster.pid"))
		lines := strings.Split(string(b), "\n")
		if err != nil || len(lines) < 8 || lines[0] != fmt.Sprint(pid) || !slices.Contains([]string{"ready", "standby"}, strings.TrimSpace(lines[7])) {
			return false, nil
		}
		_, err = s.Exec(Database, "SELECT 1")
		return err == nil, nil
	}
}

// URL is that of the superuser and the database postgres.
func (s *Server) URL() string { return s.URLOf(Superuser, "") }

// URLOf is that of a user, with a password unless it is empty.
func (s *Server) URLOf(user, password string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: s.Addr, Path: "/" + Database, RawQuery: "sslmode=disable"}
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	if s.set.tls {
		u.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {s.CA}}.Encode()
	}
	return u.String()
}
