package mysqltest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/testserver"
)

// What every server has from the start.
const (
	Database = "locks"
	User     = "app" // may do everything in the database, and nothing else
	Password = "secret"
)

// Server is one server of MariaDB or MySQL. A Restart keeps its data.
type Server struct {
	*testserver.Server

	// With TLS: files in PEM form.
	CA, ClientCert, ClientKey string

	set  settings
	kind program
}

// Start starts a server that ends with the test. If the test fails, it shows
// the server's log.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return testserver.Start(t, Run, opts)
}

// Run starts a server with its data in dir, which has to exist. The caller has
// to Stop it.
func Run(dir string, opts ...Option) (*Server, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	kind, err := installed()
	if err != nil {
		return nil, err
	}
	s := &Server{kind: kind}
	for _, opt := range opts {
		opt(&s.set)
	}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: kind.name(), Configure: s.configure, Command: s.command, Ready: s.ready,
	})
	if err := s.Run(); err != nil {
		return nil, err
	}
	return s, nil
}

// Names of files in the server's folder, which the server runs in: the path of a
// socket has to be short.
const (
	config = "my.cnf"
	data   = "data"
	socket = "../socket" // seen from the data
	pid    = "server.pid"
)

func (s *Server) configure() error {
	// A server removes other servers' files from a folder for temporary ones when it starts.
	lines := []string{
		line("datadir", s.Path(data)), line("tmpdir", s.Dir), line("socket", socket), line("pid_file", s.Path(pid)), line("port", strconv.Itoa(s.Port)),
	}
	if s.set.tls {
		more, err := s.prepareTLS()
		if err != nil {
			return err
		}
		lines = append(lines, more...)
	}
	if err := os.WriteFile(s.Path(config), []byte(s.set.file(s.kind, lines...)), 0o600); err != nil {
		return err
	}
	return copyTables(s.Path(data))
}

func (s *Server) command() (*exec.Cmd, error) {
	return exec.Command(s.kind.path, append([]string{"--defaults-file=" + s.Path(config)}, asRoot()...)...), nil
}

func (s *Server) ready(id int) func() (bool, error) {
	return func() (bool, error) {
		text, err := os.ReadFile(s.Path(pid))
		if err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(id) {
			return false, nil
		}
		_, err = s.Query("SELECT 1")
		return err == nil, nil
	}
}

// URL is mysql://user:password@127.0.0.1:port/database.
func (s *Server) URL() string { return s.URLOf(User, Password) }

// URLOf is the URL for another user.
func (s *Server) URLOf(user, password string) string { return urlOf(s.Addr, user, password) }

func urlOf(addr, user, password string) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(user, password), Host: addr, Path: "/" + Database}
	return u.String()
}

// DSN is what github.com/go-sql-driver/mysql calls the same.
func (s *Server) DSN() string { return s.DSNOf(User, Password) }

// DSNOf is the DSN for another user.
func (s *Server) DSNOf(user, password string) string {
	return fmt.Sprintf("%s:%s@tcp(%s)/%s", user, password, s.Addr, Database)
}
