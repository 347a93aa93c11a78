// Package mysqltest starts real servers of MariaDB, or of MySQL, for tests and
// benchmarks, and disturbs them and the connections to them. [Variable] chooses.
//
// The first server of a process takes a second to
// start, for its system tables are made; the next ones copy them.
//
// A server has a database, [Database], and a user, [User], with all rights on
// it. This package's own commands go over a Unix socket, as root: a test
// can give or take the rights of all others.
package mysqltest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

	synced bool
	kind   program
}

// Option changes how a server is started.
type Option = func(*Server)

// Config adds a line to the server's configuration file: "wait_timeout", "5". A
// later line overrides an earlier one; without a value it is a switch.
func Config(key string, value ...string) Option {
	return func(s *Server) { s.Lines = append(s.Lines, line(key, value...)) }
}

// Without Synced or Lazy a server writes every commit to its files, but does not
// wait for the disk: a server that is killed loses nothing.

// Synced makes every commit wait for the disk, as servers do by default.
func Synced() Option { return func(s *Server) { s.synced = true } }

// Lazy makes the server write its log once a second only: one that is killed
// loses commits that it has acknowledged.
func Lazy() Option { return Config("innodb_flush_log_at_trx_commit", "0") }

// TLS makes the server offer TLS, with a certificate of its own authority.
// Config("require_secure_transport", "ON") refuses connections without it.
func TLS() Option { return func(s *Server) { s.Secure = true } }

var servers = testserver.Kind[*Server](newServer)

// Start starts a server that ends with the test.
func Start(t testing.TB, opts ...Option) *Server { return servers.Start(t, opts...) }

// Run starts a server with its data in dir, which has to exist. The caller has
// to Stop it.
func Run(dir string, opts ...Option) (*Server, error) { return servers.Run(dir, opts...) }

func newServer(dir string) *Server {
	s := &Server{}
	s.Server = testserver.NewServer(dir, testserver.Program{
		Name: "mysqld", Configure: s.configure, Command: s.command, Ready: s.ready,
	})
	return s
}

// Names of files in the server's folder, which the server runs in: the path of a
// socket has to be short.
const (
	config = "my.cnf"
	data   = "data"
	socket = "../socket" // seen from the data
	pid    = "server.pid"
)

func (s *Server) configure() (err error) {
	if s.kind, err = installed(); err != nil {
		return err
	}
	all := []string{
		"[mysqld]",
		line("bind_address", "127.0.0.1"), line("skip_name_resolve"), line("max_connections", "2000"),
		// Small and quick.
		line("innodb_buffer_pool_size", "24M"), line("innodb_buffer_pool_dump_at_shutdown", "OFF"),
		line("innodb_buffer_pool_load_at_startup", "OFF"), line("key_buffer_size", "64K"),
		// A server removes other servers' files from a folder for temporary ones when it starts.
		line("tmpdir", s.Dir), line("datadir", s.Path(data)), line("socket", socket), line("pid_file", s.Path(pid)),
		line("port", strconv.Itoa(s.Port)),
	}
	if s.Secure {
		all = append(all, line("ssl_ca", s.CA), line("ssl_cert", s.Cert), line("ssl_key", s.Cert))
	}
	if err := s.Write(config, append(append(all, s.kind.settings(s.synced)...), s.Lines...)...); err != nil {
		return err
	}
	tables, err := newTables()
	if err != nil {
		return err
	}
	return os.CopyFS(s.Path(data), tables)
}

// line is one of the configuration file.
func line(key string, value ...string) string {
	if len(value) == 0 {
		return key
	}
	text := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(strings.Join(value, ","))
	return fmt.Sprintf("%s=\"%s\"", key, text)
}

func (s *Server) command() (*exec.Cmd, error) {
	return exec.Command(s.kind.path, append([]string{"--defaults-file=" + s.Path(config)}, asRoot()...)...), nil
}

func (s *Server) ready(id int) (bool, error) {
	text, err := os.ReadFile(s.Path(pid))
	if err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(id) {
		return false, nil
	}
	_, err = s.Query("SELECT 1")
	return err == nil, nil
}

// URL is mysql://user:password@127.0.0.1:port/database.
func (s *Server) URL() string { return s.URLOf(User, Password) }

// URLOf is the URL for another user.
func (s *Server) URLOf(user, password string) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(user, password), Host: s.Addr, Path: "/" + Database}
	return u.String()
}

// DSN is what github.com/go-sql-driver/mysql calls the same.
func (s *Server) DSN() string { return s.DSNOf(User, Password) }

// DSNOf is the DSN for another user.
func (s *Server) DSNOf(user, password string) string {
	return fmt.Sprintf("%s:%s@tcp(%s)/%s", user, password, s.Addr, Database)
}

// Query sends statements, separated by semicolons, as root, and returns what the
// client prints: a line for each row, with tabs between the values.
func (s *Server) Query(sql string) (string, error) {
	client, err := find("mariadb")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(client, "--no-defaults", "--socket=socket", "--user=root", "--batch", "--skip-column-names",
		"--default-character-set=utf8mb4", Database)
	cmd.Dir = s.Dir
	cmd.Stdin = strings.NewReader(sql)
	return testserver.Output(cmd)
}

// Do is Query for a test that cannot go on without it.
func (s *Server) Do(sql string) string {
	answer, err := s.Query(sql)
	s.Check(sql, err)
	return answer
}

// Set changes a global variable of the running server. Connections that there
// are keep what they have of most variables.
func (s *Server) Set(variable, value string) {
	s.Do("SET GLOBAL " + variable + " = " + value)
}

// Threads are the ids of the connections that a condition on
// information_schema.processlist selects, those of this package aside: "user = 'app'".
func (s *Server) Threads(where string) (ids []int) {
	sql := "SELECT id FROM information_schema.processlist" +
		" WHERE id <> CONNECTION_ID() AND user NOT IN ('system user', 'event_scheduler') AND (" + where + ")"
	found, err := s.Query(sql)
	for try := 0; try < 100 && err != nil && strings.Contains(err.Error(), "ERROR 3854"); try++ {
		found, err = s.Query(sql) // MySQL cannot show a statement that has bytes in it
	}
	s.Check(sql, err)
	for text := range strings.FieldsSeq(found) {
		id, err := strconv.Atoi(text)
		s.Check("a thread's id", err)
		ids = append(ids, id)
	}
	return ids
}

// KillConnections ends connections, selected as by Threads, and says how many.
func (s *Server) KillConnections(where string) (killed int) {
	for _, id := range s.Threads(where) {
		if _, err := s.Query(fmt.Sprint("KILL ", id)); err == nil { // it may have ended by itself
			killed++
		}
	}
	return killed
}

// Status sums up what the server counts under names like this one.
func (s *Server) Status(like string) (sum int) {
	for row := range strings.Lines(s.Do("SHOW GLOBAL STATUS LIKE '" + like + "'")) {
		_, value, _ := strings.Cut(strings.TrimSpace(row), "\t")
		n, err := strconv.Atoi(value)
		s.Check("the status "+row, err)
		sum += n
	}
	return sum
}

// Primary starts a server that replicas can follow. It waits for the disk with its binary
// log, so that it forgets nothing by itself.
func Primary(t testing.TB, opts ...Option) *Server {
	own := []Option{Config("log_bin", "binlog"), Config("server_id", "1"), Config("sync_binlog", "1")}
	return Start(t, append(own, opts...)...)
}

// Replica starts a server that follows a primary of MariaDB, asynchronously, and is read-only.
func Replica(t testing.TB, of *Server, opts ...Option) *Server {
	s := Start(t, append([]Option{Config("server_id", "2"), Config("read_only", "ON")}, opts...)...)
	of.Do("CREATE USER IF NOT EXISTS replica@'%' IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO replica@'%'")
	s.Do(fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='replica', "+
		"MASTER_PASSWORD='secret', MASTER_CONNECT_RETRY=1; START SLAVE", of.Port))
	return s
}

// CatchUp waits until a replica has what its primary has by now.
func (s *Server) CatchUp(with *Server) {
	at := strings.Fields(with.Do("SHOW MASTER STATUS"))
	s.Await("catch up", func() (bool, error) {
		got, err := s.Query(fmt.Sprintf("SELECT MASTER_POS_WAIT('%s', %s, 1)", at[0], at[1]))
		return got != "-1" && got != "NULL", err
	})
}

// Detach has a replica receive nothing more.
func (s *Server) Detach() {
	s.Do("STOP SLAVE")
}

// Promote makes a replica a server of its own.
func (s *Server) Promote() {
	s.Do("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF")
}

// Variable is the environment variable that names the server program to be tested with,
// instead of Debian's MariaDB: the path of a mariadbd or of a mysqld, version 8.0 or
// later. It may be a script that hands its arguments over and does not fork.
const Variable = "MYSQLTEST_SERVER"

// program is a server program.
type program struct {
	path  string
	maria bool
}

// installed is the program of all servers.
var installed = sync.OnceValues(func() (program, error) {
	path := os.Getenv(Variable)
	if path == "" {
		var err error
		if path, err = find("mariadbd"); err != nil {
			return program{}, err
		}
	}
	out, err := testserver.Output(exec.Command(path, "--no-defaults", "--version"))
	return program{path, strings.Contains(out, "MariaDB")}, err
})

// find finds a program of the server, which may be where only root looks.
func find(name string) (string, error) {
	return testserver.Find(name, "mariadb-server", "/usr/sbin", "/usr/local/sbin", "/usr/libexec")
}

// MariaDB reports whether servers are of MariaDB, and not of MySQL: for tests of what
// only one of them has.
func MariaDB() bool {
	p, err := installed()
	return err != nil || p.maria
}

// logSize is the size of the log that the server starts with, and goes on with.
const logSize = "8M"

// settings are those that only one kind of server knows.
func (p program) settings(synced bool) (all []string) {
	if p.maria {
		all = []string{
			line("innodb_log_file_size", logSize), line("innodb_temp_data_file_path", "ibtmp1:1M:autoextend"),
			line("aria_pagecache_buffer_size", "1M"), line("debug_no_sync"),
		}
	} else {
		all = []string{
			line("innodb_redo_log_capacity", logSize),
			line("mysqlx", "OFF"),                           // another port
			line("secure_file_priv", "NULL"),                // else a folder that has to be there
			line("auto_generate_certs", "OFF"),              // TLS only if it is asked for
			line("log_error_suppression_list", "MY-014089"), // that its log is small
			line("innodb_flush_method", "nosync"),
		}
	}
	if synced {
		all = all[:len(all)-1]
	}
	return all
}

// first is the SQL that makes the database and the user. The server that reads it
// looks at rights only when told so.
const first = `FLUSH PRIVILEGES;
CREATE DATABASE ` + Database + ` CHARACTER SET utf8mb4;
CREATE USER ` + User + `@'%' IDENTIFIED BY '` + Password + `';
GRANT ALL ON ` + Database + `.* TO ` + User + `@'%';`

// newTables are the data of a server that has never run.
var newTables = testserver.Prepared(func(dir string) (folder string, err error) {
	p, err := installed()
	if err != nil {
		return "", err
	}
	s := testserver.NewServer(dir, testserver.Program{})
	folder, begin, file := s.Path(data), s.Path("begin.sql"), s.Path(config)
	lines := append([]string{
		"[mysqld]", line("datadir", folder), line("tmpdir", dir), line("init_file", begin),
		line("innodb_flush_log_at_trx_commit", "0"), line("innodb_doublewrite", "OFF"), line("skip_log_bin"),
	}, p.settings(false)...)
	if err := errors.Join(s.Write("begin.sql", first), s.Write(config, lines...)); err != nil {
		return "", err
	}
	path, args := p.path, []string{"--defaults-file=" + file, "--initialize-insecure"}
	if p.maria {
		if path, err = find("mariadb-install-db"); err != nil {
			return "", err
		}
		args = []string{
			"--no-defaults", "--datadir=" + folder, "--skip-test-db", "--skip-name-resolve",
			"--auth-root-authentication-method=normal", "--extra-file=" + begin, "--debug-no-sync",
			"--innodb-log-file-size=" + logSize,
			"--tmpdir=" + dir, // where others are at work, it removes their files as it begins
		}
	}
	cmd := exec.Command(path, append(args, asRoot()...)...)
	cmd.Dir = dir
	_, err = testserver.Output(cmd)
	// An ID, and views of other tables, for people.
	_ = os.Remove(filepath.Join(folder, "auto.cnf"))
	if p.maria {
		_ = os.RemoveAll(filepath.Join(folder, "sys"))
	}
	return folder, err
})

// asRoot is what a server wants to be told before it runs as root.
func asRoot() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"--user=root"}
}
