package pglock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

func (s *store) Begin(ctx context.Context, o exchange.Session) (exchange.Begun, error) {
	for old := s.pool.ttl.Load(); old > int64(o.TTL) && !s.pool.ttl.CompareAndSwap(old, int64(o.TTL)); old = s.pool.ttl.Load() {
	}
	got, err := s.numbers(ctx, "begin", 1, o.ID, o.TTL.Microseconds(), text(o.Owner), s.heard(o.Mailbox))
	begun := exchange.Begun{History: history(got)}
	if len(got) > 2 { // what is left of the grace after a crash
		begun.Paused = us(got[2])
	}
	return begun, err
}

// history is the second number of an answer; 0 is none.
func history(got []int64) string {
	if len(got) < 2 || got[1] == 0 {
		return ""
	}
	return strconv.FormatInt(got[1], 10)
}

// heard is the mailbox, which is a channel of the server, if clients can listen to it.
func (s *store) heard(mailbox string) string {
	if s.silent {
		return ""
	}
	return mailbox
}

// text leaves out what the database cannot store in a text.
func text(t string) string {
	out := make([]rune, 0, len(t))
	for _, r := range t { // what is not UTF-8 becomes U+FFFD
		if r != 0 {
			out = append(out, r)
		}
	}
	return string(out)
}

func (s *store) End(ctx context.Context, o exchange.Session, _ []exchange.Leave) ([]string, error) {
	return rows[string](ctx, s, "end", o.ID)
}

func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	for {
		got, err := s.numbers(ctx, "join", statusNumbers, j.Queue, string(j.Kind), j.Capacity, j.ID, j.Units, j.Session.ID, text(j.Session.Owner),
			j.Note, j.Hold.Microseconds(), j.NoWait, j.Retry, s.crowds.has(j.Queue))
		if err == sqlcode.ErrMore {
			continue
		}
		if err != nil {
			return exchange.Status{}, err
		}
		st := status(got)
		if st.State == exchange.Waiting {
			s.crowds.note(j.Queue, true)
		}
		return st, nil
	}
}

// Flags of a ticket.
const (
	fixed = 1 << iota
	evicted
	revoked
	_ // kept
	stray
)

const statusNumbers = 10

// status reads what the function standing returns.
func status(n []int64) exchange.Status {
	if len(n) < statusNumbers {
		return exchange.Status{}
	}
	state := exchange.Held
	if n[0] == 2 {
		state = exchange.Waiting
	}
	return exchange.Status{
		State: state, Token: uint64(n[1]), Inherited: n[2] != 0, Wanted: n[3] != 0,
		Fixed: n[4]&fixed != 0, Evicted: n[4]&evicted != 0, Revoked: n[4]&revoked != 0, Stray: n[4]&stray != 0,
		Left: us(n[5]), Hold: us(n[6]), Due: us(n[7]), Unsettled: n[8] != 0, Ahead: int(n[9]),
	}
}

func us(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// unsettled is the second number of an answer.
func unsettled(got []int64) bool { return len(got) > 1 && got[1] != 0 }

func (s *store) Leave(ctx context.Context, l exchange.Leave) (bool, error) {
	got, err := s.numbers(ctx, "leave", 3, l.Queue, l.ID, l.Session.ID, l.Clean, l.Tombstone.Microseconds(), s.crowds.has(l.Queue))
	if err == nil {
		s.crowds.note(l.Queue, got[2] != 0)
	}
	return unsettled(got), err
}

func (s *store) Withdraw(ctx context.Context, o exchange.Session, queue string, ids []string, clean bool) (gone []bool, more bool, err error) {
	got, err := s.numbers(ctx, "withdraw", 2+len(ids), queue, o.ID, ids, clean)
	if err != nil {
		return nil, false, err
	}
	gone = make([]bool, len(ids))
	for i, stood := range got[2:] {
		gone[i] = stood == 0
	}
	return gone, unsettled(got), nil
}

func (s *store) Shrink(ctx context.Context, o exchange.Session, t exchange.Ref, units int64) (bool, error) {
	got, err := s.numbers(ctx, "shrink", 2, t.Queue, t.ID, o.ID, units)
	return unsettled(got), err
}

func (s *store) Keep(ctx context.Context, o exchange.Session, t exchange.Ref, d time.Duration) error {
	_, err := s.numbers(ctx, "keep", 1, t.Queue, t.ID, o.ID, text(o.Owner), max(d.Microseconds(), 1))
	return err
}

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

func (s *store) Settle(ctx context.Context, queue string) (bool, error) {
	got, err := s.numbers(ctx, "settle", 1, queue)
	return err == nil && got[0] != 0, err
}

func (s *store) Ask(ctx context.Context, queue, id string, what driver.Demand) (bool, error) {
	if driver.CheckID(id) != nil {
		return false, driver.ErrGone // the server has UUIDs
	}
	letter := map[driver.Demand]string{driver.Revoke: "r", driver.Evict: "e", driver.Force: "x"}[what]
	got, err := s.numbers(ctx, "ask", 2, queue, id, letter)
	return unsettled(got), err
}

func (s *store) Raise(ctx context.Context, queue string, floor uint64) error {
	_, err := s.numbers(ctx, "raise", 1, queue, int64(floor))
	return err
}

// Resize takes out what does not fit any more, some with each exchange.
func (s *store) Resize(ctx context.Context, queue string, capacity int64) (bool, error) {
	for to := &capacity; ; {
		got, err := s.numbers(ctx, "resize", 3, queue, to)
		switch {
		case err == sqlcode.ErrMore:
		case database.Unknown(err):
			return false, driver.Permanent(fmt.Errorf("postgres: the functions in the schema %s are of an earlier release, which cannot change a number of permits: "+
				"a program whose user owns them has to open it once: %w", s.schema.Name, errors.ErrUnsupported))
		case err != nil || got[2] == 0:
			return unsettled(got), err
		default:
			to = nil
		}
	}
}

func (s *store) Clock(ctx context.Context) (micros int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT "+database.NowUS, pgx.QueryExecModeExec).Scan(&micros)
	return micros, err
}

func (s *store) Tidy(ctx context.Context) ([]string, error) { return rows[string](ctx, s, "tidy") }
