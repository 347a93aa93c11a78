// Package mariadb contributes what competes on MariaDB.
package mariadb

import (
	"context"
	"database/sql"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	_ "github.com/interlock-go/interlock/backend/mysqllock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/row"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Backend starts a server that is as durable as one is by default.
func Backend() workload.Backend {
	return workload.Backend{Name: "mariadb", Start: start, Contenders: func(url string) []workload.Contender {
		return append([]workload.Contender{
			{Name: "GET_LOCK", Settings: "GET_LOCK, RELEASE_LOCK; a connection for everybody; no lease, no token", Open: openGetLock(url)},
			row.Contender(rows, func() (*sql.DB, error) { return open(url) }),
		}, ours.All(url)...)
	}}
}

func start(context.Context) (workload.Server, error) {
	s, end, err := workload.Launch(func(dir string) (*mysqltest.Server, error) {
		return mysqltest.Run(dir, mysqltest.Synced(), mysqltest.Config("max_connections", "4000"),
			mysqltest.Config("innodb_buffer_pool_size", "128M"), mysqltest.Config("innodb_log_file_size", "96M"))
	}, (*mysqltest.Server).Stop)
	if err != nil {
		return workload.Server{}, err
	}
	version, _ := s.Query("SELECT VERSION()")
	return workload.Server{URL: s.URL(), Close: end, About: "MariaDB " + version + ", data in " + s.Dir + ", commits wait for the disk",
		// The files of the tables.
		Kept: func(context.Context) (float64, error) {
			n, err := s.Query("SELECT coalesce(sum(file_size), 0) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE '" +
				mysqltest.Database + "/%'")
			if err != nil {
				return 0, err
			}
			return strconv.ParseFloat(n, 64)
		}}, nil
}

// open makes a pool whose statements are texts, which takes one exchange each.
func open(at string) (*sql.DB, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName, config.InterpolateParams = "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), true
	if u.Port() == "" {
		config.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	c, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// A row that is the owner's counts once if it is new and twice if it was another
// one's. expires is assigned last: the assignment before it has to see the old one.
var rows = row.Statements{
	Make: `CREATE TABLE IF NOT EXISTS bench_rows (name VARCHAR(190) CHARACTER SET ascii PRIMARY KEY,
owner VARCHAR(64) CHARACTER SET ascii NOT NULL, expires DATETIME(6) NOT NULL) ENGINE=InnoDB`,
	Take: `INSERT INTO bench_rows VALUES (?, ?, NOW(6) + INTERVAL ? MICROSECOND)
ON DUPLICATE KEY UPDATE owner = IF(expires < NOW(6), VALUES(owner), owner), expires = IF(expires < NOW(6), VALUES(expires), expires)`,
	Drop: `DELETE FROM bench_rows WHERE name = ? AND owner = ?`,
}
