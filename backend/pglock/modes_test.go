package pglock_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/interlock-go/interlock/backend/pglock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: a pool of the program's own will do however it sends queries, and is still
// open when the driver is closed.
func TestPoolsThatProgramsHave(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			c := errtest.Must(pgxpool.ParseConfig(s.URL()))(t)
			c.ConnConfig.DefaultQueryExecMode = mode
			pool := errtest.Must(pgxpool.NewWithConfig(t.Context(), c))(t)
			defer pool.Close()
			d := errtest.Must(pglock.New(t.Context(), pool))(t)
			handOver(t, d)
			everything(t, d)
			errtest.Is(t, d.Close(), nil)
			errtest.Is(t, pool.Ping(t.Context()), nil, "the pool")
		})
	}
}

// everything sends arguments and reads answers of all types.
func everything(t *testing.T, d driver.Driver) {
	t.Helper()
	ctx := t.Context()
	value := []byte{0, 1, '\'', '\\', 255}
	cell := errtest.Must(d.Swap(ctx, driver.Swap{ID: newID(), Name: "it's a \\ name/value", Version: last(t, d, "it's a \\ name/value"), Value: value}))(t)
	if got, err := d.Load(ctx, "it's a \\ name/value"); err != nil || got.Version != cell.Version || !bytes.Equal(got.Value, value) {
		t.Errorf("Load: %v, %v", got, err)
	}
	a := errtest.Must(d.Open(ctx, driver.SessionOptions{TTL: time.Minute, Owner: "it's \\ me"}))(t)
	r := request("it's a \\ queue", 3)
	r.Note, r.Hold = value, time.Hour
	k := join(t, a, r)
	if got, err := a.Renew(ctx, []driver.Ticket{k}); err != nil || len(got) != 1 || got[0].State != driver.Kept {
		t.Errorf("Renew: %v, %v", got, err)
	}
	q, err := d.Follow(ctx, r.Queue, "")
	if err != nil || len(q.Members) != 1 {
		t.Fatalf("Follow: %v, %v", q, err)
	}
	if m := q.Members[0]; m.ID != k.ID || !bytes.Equal(m.Note, value) || m.Owner != "it's \\ me" || !m.Fixed || m.Token != k.Token {
		t.Errorf("Follow: %+v", m)
	}
	errtest.Is(t, a.Leave(ctx, k, true), nil)
	errtest.Is(t, a.Close(ctx), nil)
}

func last(t *testing.T, d driver.Driver, cell string) uint64 {
	t.Helper()
	c := errtest.Must(d.Load(t.Context(), cell))(t)
	return c.Version
}
