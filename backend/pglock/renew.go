package pglock

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) Renew(ctx context.Context, o exchange.Session, tickets []exchange.Ref, _ int) (exchange.Renewal, error) {
	var r exchange.Renewal
	var err error
	r.Tickets, err = exchange.Apart(tickets, damaged, func(tickets []exchange.Ref) ([]exchange.Status, error) {
		queues, ids := split(tickets)
		got, err := rowsOn[[]int64](ctx, s, s.pool.urgent, "renew", o.ID, queues, ids)
		if err != nil {
			return nil, err
		}
		if len(got) == 0 || len(got[0]) == 0 || got[0][0] < 0 {
			return nil, driver.ErrSession
		}
		r.History = history(got[0])
		return statuses(got[1:]), nil
	})
	return r, err
}

// damaged reports whether the server cannot compute with what stands in a row.
func damaged(err error) bool {
	var of *pgconn.PgError
	return errors.As(err, &of) && strings.HasPrefix(of.Code, "22")
}

func (s *store) Tickets(ctx context.Context, o exchange.Session) (all []exchange.Ref, err error) {
	err = s.query(ctx, "tickets", func(r pgx.Rows) (err error) {
		all, err = pgx.CollectRows(r, func(row pgx.CollectableRow) (t exchange.Ref, err error) {
			var id [16]byte
			err = row.Scan(&t.Queue, &id)
			t.ID = hex.EncodeToString(id[:])
			return t, err
		})
		return err
	}, o.ID)
	return all, err
}

func (s *store) Detach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	return s.strand(ctx, o.ID, tickets, nil)
}

func (s *store) Attach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	return s.strand(ctx, o.ID, nil, tickets)
}

func (s *store) strand(ctx context.Context, session string, detach, attach []exchange.Ref) error {
	detachQueues, detachIDs := split(detach)
	attachQueues, attachIDs := split(attach)
	_, err := s.numbers(ctx, "strand", 1, session, detachQueues, detachIDs, attachQueues, attachIDs)
	return err
}

func (s *store) Look(ctx context.Context, o exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error) {
	return exchange.Apart(tickets, damaged, func(tickets []exchange.Ref) ([]exchange.Status, error) {
		queues, ids := split(tickets)
		got, err := rows[[]int64](ctx, s, "look", o.ID, queues, ids)
		return statuses(got), err
	})
}

func statuses(got [][]int64) []exchange.Status {
	all := make([]exchange.Status, 0, len(got))
	for _, n := range got {
		all = append(all, status(n))
	}
	return all
}

// split makes two columns, which are never nil: that would be NULL.
func split(tickets []exchange.Ref) (queues, ids []string) {
	queues, ids = make([]string, len(tickets)), make([]string, len(tickets))
	for i, t := range tickets {
		queues[i], ids[i] = t.Queue, t.ID
	}
	return queues, ids
}
