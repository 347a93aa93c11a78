package mariadb

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"net"
	neturl "net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/interlock-go/interlock/bench/kernel"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// open makes a pool whose statements are texts, which takes one exchange each.
func open(url string) (*sql.DB, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	c, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

func parse(url string) (*mysql.Config, error) {
	u, err := neturl.Parse(url)
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	if u.Port() == "" {
		config.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.InterpolateParams = true
	return config, nil
}

// server is a MariaDB that was started here, or one that was running already.
type server struct {
	url     string
	running *mysqltest.Server // nil if it was not started here
	admin   *sql.DB           // one connection
	traffic *kernel.Traffic
	asked   float64 // questions of usage, which are not its use
}

// start runs a server that is as durable as one is by default, unless there is
// one at url.
func start(ctx context.Context, url string, connections int) (*server, error) {
	s := &server{url: url}
	if url == "" {
		dir, err := os.MkdirTemp("", "bench-mariadb-")
		if err != nil {
			return nil, err
		}
		s.running, err = mysqltest.Run(dir, mysqltest.Synced(),
			mysqltest.Config("max_connections", fmt.Sprint(connections)),
			mysqltest.Config("innodb_buffer_pool_size", "128M"), mysqltest.Config("innodb_log_file_size", "96M"),
			mysqltest.Config("innodb_monitor_enable", "trx_rw_commits"))
		if err != nil {
			_ = os.RemoveAll(dir)
			return nil, err
		}
		s.url = s.running.URL()
	}
	if err := s.connect(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *server) connect(ctx context.Context) error {
	config, err := parse(s.url)
	if err != nil {
		return err
	}
	if s.running != nil {
		// Not by TCP, so that the kernel counts others only.
		config.Net, config.Addr, config.User, config.Passwd = "unix", s.running.Path("socket"), "root", ""
		s.traffic = kernel.NewTraffic(s.running.Port, 0)
	}
	c, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	s.admin = sql.OpenDB(c)
	s.admin.SetMaxOpenConns(1)
	_, err = s.admin.ExecContext(ctx, makeRows)
	return err
}

func (s *server) URL() string { return s.url }

func (s *server) Close() error {
	var err error
	if s.admin != nil {
		err = s.admin.Close()
	}
	if s.running != nil {
		s.running.Stop()
		err = os.RemoveAll(s.running.Dir)
	}
	return err
}

// matters are the settings that the figures depend on.
var matters = []string{
	"innodb_flush_log_at_trx_commit", "innodb_flush_method", "log_bin", "innodb_doublewrite", "innodb_buffer_pool_size",
	"innodb_log_file_size", "max_connections", "tx_isolation",
}

func (s *server) About() []string {
	about := []string{}
	for _, name := range append([]string{"version"}, matters...) {
		about = append(about, name+" "+s.variable(name))
	}
	about[0] = "MariaDB" + strings.TrimPrefix(about[0], "version")
	lines := []string{strings.Join(about, ", ")}
	if s.running == nil {
		return append(lines, "bytes and CPU of the server are not counted")
	}
	lines = append(lines, "data in "+s.running.Dir+"; commands are Questions, transactions those that write")
	if _, _, err := s.traffic.Read(); err != nil {
		lines = append(lines, "bytes are not counted: "+err.Error())
	}
	return lines
}

func (s *server) variable(name string) string {
	var key, value string
	if err := s.admin.QueryRow("SHOW GLOBAL VARIABLES LIKE '"+name+"'").Scan(&key, &value); err != nil {
		return err.Error()
	}
	return value
}

// Clear ends whatever connections are left and drops all tables and routines,
// unless others may use the server.
func (s *server) Clear(ctx context.Context) error {
	if s.running == nil {
		return nil
	}
	if _, err := s.admin.ExecContext(ctx, "KILL USER "+mysqltest.User); err != nil {
		return err
	}
	for _, sql := range []string{
		"DROP DATABASE " + mysqltest.Database, "CREATE DATABASE " + mysqltest.Database + " CHARACTER SET utf8mb4",
		"USE " + mysqltest.Database, makeRows,
	} {
		if _, err := s.admin.ExecContext(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// Usage reads the counters of the server and the kernel's of bytes and CPU.
func (s *server) Usage(ctx context.Context) (u workload.Usage, err error) {
	unknown := math.NaN()
	u = workload.Usage{Sent: unknown, Received: unknown, Commands: unknown, Scripts: unknown, Transactions: unknown}
	if s.running != nil {
		u.CPU = kernel.CPU(s.running.Pid())
		if sent, received, err := s.traffic.Read(); err == nil {
			u.Sent, u.Received = sent, received
		}
		s.asked++
		err = s.admin.QueryRowContext(ctx, "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rw_commits'").Scan(&u.Transactions)
		if err != nil {
			return u, err
		}
	}
	s.asked++ // this one is counted already
	var name string
	err = s.admin.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &u.Commands)
	u.Commands -= s.asked
	return u, err
}

// Kept is the size of the files of the tables.
func (s *server) Kept(ctx context.Context) (bytes float64, err error) {
	err = s.admin.QueryRowContext(ctx, "SELECT coalesce(sum(file_size), 0) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE ?",
		mysqltest.Database+"/%").Scan(&bytes)
	return bytes, err
}
