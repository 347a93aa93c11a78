package postgres

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/bench/kernel"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// server is a PostgreSQL that was started here, or one that was running already.
type server struct {
	url     string
	running *pgtest.Server // nil if it was not started here
	admin   *pgx.Conn
	traffic *kernel.Traffic
	counts  bool    // statements
	asked   float64 // questions of usage, which are not its use
}

// counters is the schema of what counts statements.
const counters = "bench_counters"

// start runs a server that is as durable as one is by default, unless there is
// one at url.
func start(ctx context.Context, url string, connections int) (*server, error) {
	s := &server{url: url}
	if url == "" {
		dir, err := os.MkdirTemp("", "bench-postgres-")
		if err != nil {
			return nil, err
		}
		s.running, err = pgtest.Run(dir, pgtest.Durable(),
			pgtest.Config("max_connections", fmt.Sprint(connections)),
			pgtest.Config("shared_buffers", "128MB"), pgtest.Config("max_wal_size", "1GB"), pgtest.Config("min_wal_size", "80MB"),
			pgtest.Config("shared_preload_libraries", "pg_stat_statements"),
			pgtest.Setup("CREATE SCHEMA "+counters+"; CREATE EXTENSION pg_stat_statements SCHEMA "+counters))
		if err != nil {
			_ = os.RemoveAll(dir)
			return nil, err
		}
		s.url, s.counts = s.running.URL(), true
	}
	if err := s.connect(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *server) connect(ctx context.Context) (err error) {
	if s.admin, err = pgx.Connect(ctx, s.url); err != nil {
		return err
	}
	if s.running != nil {
		from := s.admin.PgConn().Conn().LocalAddr().(*net.TCPAddr)
		s.traffic = kernel.NewTraffic(s.running.Port, from.Port)
	}
	_, err = s.admin.Exec(ctx, makeRows)
	return err
}

func (s *server) URL() string { return s.url }

func (s *server) Close() error {
	var err error
	if s.admin != nil {
		err = s.admin.Close(context.Background())
	}
	if s.running != nil {
		s.running.Stop()
		err = os.RemoveAll(s.running.Dir)
	}
	return err
}

// matters are the settings that the figures depend on.
var matters = []string{
	"fsync", "synchronous_commit", "wal_sync_method", "full_page_writes", "shared_buffers", "max_wal_size",
	"max_connections", "deadlock_timeout", "track_activities",
}

func (s *server) About() []string {
	ctx := context.Background()
	var about []string
	for _, name := range append([]string{"server_version"}, matters...) {
		var value string
		if err := s.admin.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			value = err.Error()
		}
		about = append(about, name+" "+value)
	}
	about[0] = "PostgreSQL" + strings.TrimPrefix(about[0], "server_version")
	lines := []string{strings.Join(about, ", ")}
	if !s.counts {
		return append(lines, "statements, bytes and CPU of the server are not counted")
	}
	lines = append(lines, "data in "+s.running.Dir+"; statements are counted by pg_stat_statements, transactions by their ids: those that write")
	if _, _, err := s.traffic.Read(); err != nil {
		lines = append(lines, "bytes are not counted: "+err.Error())
	}
	return lines
}

// Clear ends whatever connections are left and drops all tables, unless others
// may use the server.
func (s *server) Clear(ctx context.Context) error {
	if s.running == nil {
		return nil
	}
	if err := s.disconnect(ctx); err != nil {
		return err
	}
	_, err := s.admin.Exec(ctx, clear+makeRows)
	return err
}

const clear = `DO $$
DECLARE one text;
BEGIN
	FOR one IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', '` + counters + `') LOOP
		EXECUTE format('DROP SCHEMA %I CASCADE', one);
	END LOOP;
	CREATE SCHEMA public;
	GRANT ALL ON SCHEMA public TO public;
END $$;
`

// patience is how long a server may need to end connections. One in which a crowd
// looks for deadlocks does not get to it.
const patience = 20 * time.Second

// disconnect ends all connections but its own.
func (s *server) disconnect(ctx context.Context) error {
	const others = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
	end := time.Now().Add(patience)
	for pause := time.Millisecond; time.Now().Before(end); pause *= 2 {
		var left int
		if err := s.admin.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid)) "+others).Scan(&left); err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		time.Sleep(pause)
	}
	_ = s.admin.Close(ctx)
	if err := s.running.Again(nil); err != nil {
		return err
	}
	return s.connect(ctx)
}

// Usage reads the counters of the server and the kernel's of bytes and CPU. What
// it costs itself is left out, but for the CPU.
func (s *server) Usage(ctx context.Context) (u workload.Usage, err error) {
	unknown := math.NaN()
	u = workload.Usage{Sent: unknown, Received: unknown, Commands: unknown, Scripts: unknown, Transactions: unknown}
	if s.running != nil {
		u.CPU = kernel.CPUOfAll(s.running.Pid())
		if sent, received, err := s.traffic.Read(); err == nil {
			u.Sent, u.Received = sent, received
		}
	}
	if err := s.admin.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8").Scan(&u.Transactions); err != nil {
		return u, err
	}
	s.asked++
	if s.counts {
		err = s.admin.QueryRow(ctx, "SELECT sum(calls)::float8 FROM "+counters+".pg_stat_statements").Scan(&u.Commands)
		u.Commands -= s.asked
		s.asked++
	}
	return u, err
}

// Kept is the size of the tables of the locks and their indexes, and of what is left in them of earlier rows.
func (s *server) Kept(ctx context.Context) (bytes float64, err error) {
	err = s.admin.QueryRow(ctx, "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8 FROM pg_class c "+
		"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'interlock' AND c.relkind = 'r'").Scan(&bytes)
	return bytes, err
}
