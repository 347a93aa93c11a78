// Package postgres contributes what competes on PostgreSQL.
package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	_ "github.com/jackc/pgx/v5/stdlib"

	_ "github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/row"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Backend starts a server that is as durable as one is by default.
func Backend() workload.Backend {
	return workload.Backend{Name: "postgres", Start: start, Contenders: func(url string) []workload.Contender {
		return append([]workload.Contender{
			{Name: "advisory", Settings: "pg_advisory_lock, pg_advisory_unlock; a connection for everybody; no lease, no token", Open: openAdvisory(url)},
			row.Contender(rows, func() (*sql.DB, error) { return sql.Open("pgx", url) }),
		}, ours.AllAt(apart(url))...)
	}}
}

func start(context.Context) (workload.Server, error) {
	s, end, err := workload.Launch(func(dir string) (*pgtest.Server, error) {
		return pgtest.Run(dir, pgtest.Durable(), pgtest.Config("max_connections", "400"),
			pgtest.Config("shared_buffers", "128MB"), pgtest.Config("max_wal_size", "1GB"), pgtest.Config("min_wal_size", "80MB"))
	}, (*pgtest.Server).Stop)
	if err != nil {
		return workload.Server{}, err
	}
	version, _ := s.Exec(pgtest.Database, "SHOW server_version")
	return workload.Server{URL: s.URL(), Close: end,
		About: "PostgreSQL " + strings.TrimSpace(version) + ", data in " + s.Dir + ", commits wait for the disk",
		// The tables of the locks with their indexes, and what is left in them of earlier rows.
		Kept: func(context.Context) (float64, error) {
			n, err := s.Exec(pgtest.Database, "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c "+
				"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'interlock' AND c.relkind = 'r'")
			if err != nil {
				return 0, err
			}
			return strconv.ParseFloat(strings.TrimSpace(n), 64)
		}}, nil
}

// apart gives each client of W1 to W4 a URL of its own, so that it shares nothing with
// others of this process. The thousand of W5 have one URL, and so a few connections.
func apart(url string) func(workload.Options) string {
	var n atomic.Int64
	sign := "?"
	if strings.Contains(url, "?") {
		sign = "&"
	}
	return func(o workload.Options) string {
		if o.Clients > 16 {
			return url
		}
		return fmt.Sprintf("%s%sapplication_name=bench-%d", url, sign, n.Add(1))
	}
}

var rows = row.Statements{
	Make: `CREATE TABLE IF NOT EXISTS bench_rows (name text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL)`,
	Take: `INSERT INTO bench_rows AS r VALUES ($1, $2, now() + $3::bigint * interval '1 microsecond')
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires = excluded.expires WHERE r.expires < now()`,
	Drop: `DELETE FROM bench_rows WHERE name = $1 AND owner = $2`,
}
