// Package pgtest starts real PostgreSQL servers for tests and benchmarks, and
// PgBouncer in front of them, and disturbs them.
//
// PostgreSQL does not run as root: if the test does, the
// servers run as the user postgres, or nobody.
//
// The superuser is called postgres. He may connect without a password by the
// folder's socket, which is what this package itself does, so that a test can give
// or take the rights of all others.
package pgtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// Server is one PostgreSQL server.
type Server struct {
	*testserver.Server

	setup     []string // SQL
	passwords bool
	of        *Server // whose standby it is
}

// Superuser may do everything, and Database is there from the start.
const Superuser, Database = "postgres", "postgres"

// Option changes how a server is started.
type Option = func(*Server)

// Config adds a line to the server's configuration. A later line overrides an
// earlier one.
func Config(key, value string) Option {
	return func(s *Server) { s.Lines = append(s.Lines, key+" = "+literal(value)) }
}

// Durable makes the server wait for its disk, as it does by default outside of
// tests.
func Durable() Option { return Config("fsync", "on") }

// Setup runs SQL as the superuser when the server is started for the first time.
func Setup(sql string) Option { return func(s *Server) { s.setup = append(s.setup, sql) } }

// User adds a user who may connect and, unlike the owner of a database, may make
// nothing: no schema, and no table in the schema public.
func User(name, password string) Option {
	return Setup(fmt.Sprintf(`REVOKE CREATE ON SCHEMA public FROM public; CREATE ROLE "%s" LOGIN PASSWORD %s`,
		strings.ReplaceAll(name, `"`, `""`), literal(password)))
}

// Passwords has all who connect by TCP show the password.
func Passwords() Option { return func(s *Server) { s.passwords = true } }

// TLS has all connect by TCP with TLS only. A client may show the
// certificate of Server.ClientCert.
func TLS() Option { return func(s *Server) { s.Secure = true } }

// FakeTime lets the server see a wall clock that StepClock steps.
func FakeTime() Option { return func(s *Server) { s.Offset = new(time.Duration) } }

// literal quotes a text for SQL and for the configuration, which agree on it as
// long as there is no backslash.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

var servers = testserver.Kind[*Server](newServer)

// Start starts a server that ends with the test.
func Start(t testing.TB, opts ...Option) *Server { return servers.Start(t, opts...) }

// Run starts a server with its data in dir, which has to exist. The caller has to
// Stop it.
func Run(dir string, opts ...Option) (*Server, error) { return servers.Run(dir, opts...) }

func newServer(dir string) *Server {
	s := &Server{}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "postgres", Command: s.command, Ready: s.serves,
		Configure: func() error {
			if err := s.makeData(); err != nil {
				return err
			}
			return s.configure()
		},
		Terminate: os.Interrupt, Quit: syscall.SIGQUIT,
	})
	return s
}

// Run starts the server for the first time.
func (s *Server) Run() error {
	err := s.Server.Run()
	for _, sql := range s.setup {
		if err == nil {
			_, err = s.Exec(Database, sql)
		}
	}
	if err != nil {
		s.Stop()
	}
	return err
}

func (s *Server) data() string { return s.Path("data") }

func (s *Server) configure() error {
	lines := []string{
		"listen_addresses = '127.0.0.1'", fmt.Sprintf("port = %d", s.Port),
		"unix_socket_directories = " + literal(s.Dir),
		// Only this one user of the machine gets in without a password.
		"unix_socket_permissions = 0700",
		"max_connections = 200", "shared_buffers = '32MB'", "dynamic_shared_memory_type = mmap",
		"fsync = off", "max_wal_size = '64MB'", "min_wal_size = '2MB'",
		"wal_level = replica", "max_wal_senders = 4", "hot_standby = on",
		"log_line_prefix = '%m [%p] %u@%d '", "logging_collector = off", "log_checkpoints = off",
		"restart_after_crash = on", "timezone = 'UTC'", "log_timezone = 'UTC'",
	}
	how, way := "trust", "host"
	if s.passwords {
		how = "scram-sha-256"
	}
	if s.Secure {
		way = "hostssl"
		lines = append(lines, "ssl = on",
			"ssl_ca_file = "+literal(s.CA), "ssl_cert_file = "+literal(s.Cert), "ssl_key_file = "+literal(s.Cert))
	}
	if s.of != nil {
		lines = append(lines, fmt.Sprintf("primary_conninfo = 'host=%s port=%d user=%s'", s.of.Dir, s.of.Port, Superuser))
	}
	hba := []string{
		"local all,replication " + Superuser + " trust",
		way + " all all 127.0.0.1/32 " + how,
		way + " replication all 127.0.0.1/32 " + how,
	}
	return write(s.Server, map[string][]string{
		"data/postgresql.auto.conf": append(lines, s.Lines...), "data/pg_hba.conf": hba,
	})
}

// write makes files of lines, which the server may read.
func write(s *testserver.Server, files map[string][]string) (err error) {
	for name, lines := range files {
		if err == nil {
			err = s.Write(name, lines...)
		}
		if err == nil {
			err = own(s.Path(name))
		}
	}
	return err
}

func (s *Server) command() (*exec.Cmd, error) { return program("postgres", "-D", s.data()) }

// serves finds out whether the process with this id answers queries.
func (s *Server) serves(pid int) (bool, error) {
	b, _ := os.ReadFile(s.Path("data/postmaster.pid")) // its eighth line is ready, or standby
	lines := strings.Fields(string(b))
	serves := func(line string) bool { return line == "ready" || line == "standby" }
	if len(lines) == 0 || lines[0] != fmt.Sprint(pid) || !serves(lines[len(lines)-1]) {
		return false, nil
	}
	_, err := s.Exec(Database, "SELECT 1")
	return err == nil, nil
}

// URL is that of the superuser and the database postgres.
func (s *Server) URL() string { return s.URLOf(Superuser, "") }

// URLOf is that of a user, with a password unless it is empty.
func (s *Server) URLOf(user, password string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: s.Addr, Path: "/" + Database, RawQuery: "sslmode=disable"}
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	if s.Secure {
		u.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {s.CA}}.Encode()
	}
	return u.String()
}

// ours is what the connections of this package are called: one that is just ending shows
// its last query for a moment, which may be what a test looks for.
const ours = "pgtest"

// Exec runs SQL as the superuser, over a connection of its own, and returns the
// rows: a line for each, with a bar between columns.
func (s *Server) Exec(database, sql string) (string, error) {
	return psql(s.Dir, "postgres:///"+url.PathEscape(database)+"?"+url.Values{
		"host": {s.Dir}, "port": {strconv.Itoa(s.Port)}, "user": {Superuser}, "application_name": {ours},
	}.Encode(), sql)
}

func psql(dir, target, sql string) (string, error) {
	cmd, err := program("psql", "--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--no-password",
		"--set", "ON_ERROR_STOP=1", target)
	if err != nil {
		return "", err
	}
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(sql)
	out, err := testserver.Output(cmd)
	if err != nil {
		err = fmt.Errorf("%s: %w", sql, err)
	}
	return out, err
}

// SQL is Exec in the database that is there from the start.
func (s *Server) SQL(sql string) string {
	out, err := s.Exec(Database, sql)
	s.Check("SQL", err)
	return out
}

// others are the connections that are not of this package, and for which the condition holds.
func others(where string) string {
	return " FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> '" + ours + "'" +
		" AND (" + where + ")"
}

// Backends are the process ids of those that serve connections of clients for
// which the condition holds, a condition on pg_stat_activity.
func (s *Server) Backends(where string) []int {
	return s.numbers(s.SQL("SELECT pid" + others(where)))
}

func (s *Server) numbers(text string) (all []int) {
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(word)
		s.Check("process ids", err)
		all = append(all, n)
	}
	return all
}

// Terminate ends connections in good order, as an administrator would: those for
// which the condition holds, a condition on pg_stat_activity. It returns how many.
func (s *Server) Terminate(where string) int {
	n, err := strconv.Atoi(s.SQL("SELECT count(*) FILTER (WHERE pg_terminate_backend(pid))" + others(where)))
	s.Check("terminate", err)
	return n
}

// Kill ends the server with all its processes by SIGKILL. Nothing that was not
// written to files is left. It can be started again with Restart.
func (s *Server) Kill() {
	if s.Alive() {
		s.Pause() // a server that is stopped starts no more processes
	}
	pid := s.Pid()
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // elsewhere they end by themselves
	children := s.numbers(string(text))
	killAll(children)
	s.Server.Kill()
	s.Await("kill", func() (bool, error) { return !slices.ContainsFunc(children, testserver.Runs), nil })
}

func killAll(pids []int) {
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // it may have ended
		}
	}
}

// KillBackends ends the processes that serve connections for which the condition
// holds, a condition on pg_stat_activity, by SIGKILL: the server then ends all
// other connections too, and recovers. It returns how many these were, once the
// server serves again; 0 if all had just ended by themselves.
func (s *Server) KillBackends(where string) int {
	all := s.Backends(where)
	before := s.crashes()
	killAll(all)
	s.Await("recover", func() (bool, error) {
		for _, pid := range all {
			if _, err := os.Stat(fmt.Sprint("/proc/", pid)); err == nil { // the server does not know yet
				return false, nil
			}
		}
		_, err := s.Exec(Database, "SELECT 1")
		return err == nil, nil
	})
	if s.crashes() == before {
		return 0
	}
	return len(all)
}

// crashes is how often the server has seen a process of its own killed.
func (s *Server) crashes() int {
	log, err := os.ReadFile(s.Path("log"))
	s.Check("read the log", err)
	return strings.Count(string(log), "was terminated by signal 9")
}

// Until looks again and again until there is a result or an error.
func Until(ready func() (bool, error)) error { return testserver.Until(ready) }

// StartStandby starts a hot standby of a server, which receives what is committed
// there later, and ends with the test. Promote makes it a primary.
func StartStandby(t testing.TB, of *Server) *Server {
	return Start(t, func(s *Server) {
		s.of, s.passwords = of, of.passwords
		s.Lines, s.Secure, s.Offset = of.Lines, of.Secure, of.Offset
	})
}

// Promote makes a standby a primary, as a failover does.
func (s *Server) Promote() {
	if s.SQL("SELECT pg_promote(true, 120)") != "t" {
		s.Check("promote", errors.New("it takes too long"))
	}
}

// StopReceiving has a standby receive nothing more from its primary, as if the network
// between them were cut. What it has received so far stays. Receive ends that.
func (s *Server) StopReceiving() {
	s.SQL("ALTER SYSTEM SET primary_conninfo = ''")
	s.receives("f")
}

// Receive has a standby go on after StopReceiving.
func (s *Server) Receive() {
	s.Check("configure", s.configure())
	s.receives("t")
}

// receives has the server read its configuration.
func (s *Server) receives(yes string) {
	s.SQL("SELECT pg_reload_conf()")
	s.until("receiver", "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver)", yes)
}

// CatchUp waits until a standby has received and applied all that its primary has
// committed so far.
func (s *Server) CatchUp(primary *Server) {
	lsn := primary.SQL("SELECT pg_current_wal_flush_lsn()")
	s.until("catch up", "SELECT pg_last_wal_replay_lsn() >= '"+lsn+"'", "t")
}

func (s *Server) until(what, sql, want string) {
	s.Await(what, func() (bool, error) {
		got, err := s.Exec(Database, sql)
		return got == want, err
	})
}
