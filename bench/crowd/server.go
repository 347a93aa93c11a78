package crowd

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	_ "github.com/interlock-go/interlock/backend/mysqllock"
	_ "github.com/interlock-go/interlock/backend/pglock"
	_ "github.com/interlock-go/interlock/backend/redislock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	_ "github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Server is what the crowd's lock is on. It was started here, with the limits
// that it has by default.
type Server struct {
	backend string
	url     string
	ends    []func()

	// connections counts those that there are, except its own; nil if there is
	// nothing to count.
	connections func(context.Context) (int, error)
}

// Backends are the names that Start knows.
func Backends() []string { return []string{"redis", "zookeeper", "postgres", "mariadb", "sqlite"} }

// Start starts a server. The caller has to Close it.
func Start(ctx context.Context, backend string) (*Server, error) {
	start := map[string]func(*Server, context.Context, string) error{
		"redis": (*Server).redis, "zookeeper": (*Server).zookeeper, "postgres": (*Server).postgres,
		"mariadb": (*Server).mariadb, "sqlite": (*Server).sqlite,
	}[backend]
	if start == nil {
		return nil, fmt.Errorf("no backend %q; there are %s", backend, strings.Join(Backends(), ", "))
	}
	dir, err := os.MkdirTemp("", "bench-crowd-")
	if err != nil {
		return nil, err
	}
	s := &Server{backend: backend}
	s.atEnd(func() { _ = os.RemoveAll(dir) })
	if err := start(s, ctx, dir); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) atEnd(f func()) { s.ends = append(s.ends, f) }

// Close ends the server and deletes its data.
func (s *Server) Close() {
	for i := len(s.ends) - 1; i >= 0; i-- {
		s.ends[i]()
	}
}

func (s *Server) redis(ctx context.Context, dir string) error {
	running, err := redistest.Run(dir, redistest.Config("save", "3600 1 300 100 60 10000"))
	if err != nil {
		return err
	}
	s.atEnd(running.Stop)
	s.url = "redis://" + running.Addr
	admin := redis.NewClient(&redis.Options{Addr: running.Addr, PoolSize: 1})
	s.atEnd(func() { _ = admin.Close() })
	s.connections = func(ctx context.Context) (int, error) {
		info, err := admin.Info(ctx, "clients").Result()
		if err != nil {
			return 0, err
		}
		return afterName(info, "connected_clients:")
	}
	return admin.Ping(ctx).Err()
}

func (s *Server) zookeeper(_ context.Context, dir string) error {
	running, err := zktest.Run(dir, zktest.Durable(), zktest.Tick(2*time.Second),
		zktest.Config("maxClientCnxns", "60"), zktest.Config("maxSessionTimeout", "40000"))
	if err != nil {
		return err
	}
	s.atEnd(running.Stop)
	s.url = "zk://" + running.Addr
	s.connections = func(context.Context) (int, error) {
		answer, err := running.Ask("mntr")
		if err != nil {
			return 0, err
		}
		return afterName(answer, "zk_num_alive_connections\t")
	}
	return nil
}

// postgres has the crowd be an ordinary user, for whom no connections are reserved.
func (s *Server) postgres(ctx context.Context, dir string) error {
	const app = "app"
	running, err := pgtest.Run(dir, pgtest.Durable(), pgtest.Config("max_connections", "100"),
		pgtest.Config("shared_buffers", "128MB"), pgtest.Config("max_wal_size", "1GB"), pgtest.Config("min_wal_size", "80MB"),
		pgtest.Setup("CREATE USER "+app+"; GRANT CREATE ON DATABASE "+pgtest.Database+" TO "+app))
	if err != nil {
		return err
	}
	s.atEnd(running.Stop)
	s.url = running.URLOf(app, "")
	admin, err := pgx.Connect(ctx, running.URL())
	if err != nil {
		return err
	}
	s.atEnd(func() { _ = admin.Close(context.Background()) })
	s.connections = func(ctx context.Context) (n int, err error) {
		err = admin.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE usename = $1", app).Scan(&n)
		return n, err
	}
	return nil
}

func (s *Server) mariadb(ctx context.Context, dir string) error {
	running, err := mysqltest.Run(dir, mysqltest.Synced(), mysqltest.Config("max_connections", "151"),
		mysqltest.Config("innodb_buffer_pool_size", "128M"), mysqltest.Config("innodb_log_file_size", "96M"))
	if err != nil {
		return err
	}
	s.atEnd(running.Stop)
	s.url = running.URL()
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User, config.InterpolateParams = "unix", running.Path("socket"), "root", true
	c, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	admin := sql.OpenDB(c)
	admin.SetMaxOpenConns(1)
	s.atEnd(func() { _ = admin.Close() })
	s.connections = func(ctx context.Context) (n int, err error) {
		err = admin.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?", mysqltest.User).Scan(&n)
		return n, err
	}
	return admin.PingContext(ctx)
}

func (s *Server) sqlite(_ context.Context, dir string) error {
	s.url = (&url.URL{Scheme: "sqlite", Path: filepath.ToSlash(filepath.Join(dir, "locks.db"))}).String()
	return nil
}

// afterName is the number that stands behind a name in an answer of many lines,
// without the connection that has asked.
func afterName(answer, name string) (int, error) {
	for line := range strings.Lines(answer) {
		if text, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			return n - 1, err
		}
	}
	return 0, fmt.Errorf("no %s in:\n%s", name, answer)
}

// most looks at the connections until ctx ends and returns the most that it has
// seen, -1 if it saw none.
func (s *Server) most(ctx context.Context) int {
	most := -1
	if s.connections == nil {
		return most
	}
	for ctx.Err() == nil {
		if n, err := s.connections(ctx); err == nil {
			most = max(most, n)
		}
		pause(ctx)
	}
	return most
}
