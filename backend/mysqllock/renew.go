package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Look reads what has become of tickets.
func (s *store) Look(ctx context.Context, o exchange.Session, tickets []exchange.Ref) ([]exchange.Status, error) {
	session := o.ID
	if len(tickets) == 1 {
		r, err := s.one(ctx, session, tickets[0], false)
		return r.Tickets, err
	}
	all := make([]exchange.Status, len(tickets))
	for at := 0; at < len(tickets); at += perLook {
		to := min(at+perLook, len(tickets))
		if err := s.look(ctx, session, tickets[at:to], all[at:to]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *store) look(ctx context.Context, session string, tickets []exchange.Ref, into []exchange.Status) error {
	args := make([]any, 0, 3*len(tickets))
	for i, t := range tickets {
		args = append(args, i, []byte(t.Queue), id(t.ID))
	}
	l := &looking{session: session, into: into}
	if err := s.rows(ctx, asked+list(len(tickets), each, " UNION ALL ")+found, args, l.begin, l.read); err != nil {
		return err
	}
	return s.lookAhead(ctx, l.waits, into)
}

// looking is what is read of tickets of a session.
type looking struct {
	session string
	into    []exchange.Status
	waits   []waiter
}

func (l *looking) begin() {
	clear(l.into)
	l.waits = nil
}

// endOf is the moment at which a ticket ends unless it is renewed.
func endOf(flags int64, ends, sessionEnds sql.NullInt64, since int64, ttl sql.NullInt64) int64 {
	switch {
	case flags&fixed == 0 && sessionEnds.Int64 == 0: // of a session that was closed
		return 0
	case ends.Valid:
		return ends.Int64
	}
	return max(sessionEnds.Int64, since+ttl.Int64)
}

// Renew is a statement for each of two tickets, else one that extends the session and two
// that read: so no ticket costs more than one. What it has found out when one of them
// fails is said.
func (s *store) Renew(ctx context.Context, o exchange.Session, tickets []exchange.Ref, _ int) (r exchange.Renewal, err error) {
	r.Tickets, err = exchange.Apart(tickets, damaged, func(part []exchange.Ref) ([]exchange.Status, error) {
		got, err := s.renew(ctx, o, part)
		r.History = cmp.Or(got.History, r.History)
		return got.Tickets, err
	})
	return r, err
}

// damaged reports whether the server cannot compute with what stands in a row, or this package cannot read it.
func damaged(err error) bool {
	var refusal *mysql.MySQLError
	return errors.As(err, &refusal) && strings.HasPrefix(string(refusal.SQLState[:]), "22") || strings.Contains(err.Error(), "sql: Scan error")
}

func (s *store) renew(ctx context.Context, o exchange.Session, tickets []exchange.Ref) (exchange.Renewal, error) {
	session := o.ID
	if n := len(tickets); n == 1 || n == 2 {
		all, err := s.one(ctx, session, tickets[0], true)
		if err == nil && n == 2 {
			if other, err := s.one(ctx, session, tickets[1], false); err == nil {
				all.Tickets = append(all.Tickets, other.Tickets...)
			}
		}
		return all, err
	}
	text := s.sql(extend)
	var sent driver.Instant
	var made result
	var history string
	err := s.exchangeIf(ctx, func(c *sql.Conn, l link) error {
		sent, history = driver.Now(), l.history
		return made.read(c.ExecContext(ctx, text, id(session)))
	})
	if err != nil {
		return exchange.Renewal{}, err
	}
	if made.id == 0 {
		s.ends.end(session)
		return exchange.Renewal{}, driver.ErrSession
	}
	s.ends.renewed(session, sent, made.id)
	all, err := s.Look(ctx, o, tickets)
	return exchange.Renewal{Tickets: all, History: history}, err
}

func (s *store) Tickets(ctx context.Context, o exchange.Session) (all []exchange.Ref, err error) {
	err = s.rows(ctx, `SELECT q.name, t.id FROM {p}tickets t JOIN {p}queues q ON q.no = t.queue WHERE t.session = ? AND t.flags & 1 = 0
		UNION ALL SELECT name, id FROM {p}queues WHERE session = ? AND {lone} IS NOT NULL`, []any{id(o.ID), id(o.ID)},
		func() { all = nil },
		func(r *sql.Rows) error {
			var queue, ticket []byte
			err := r.Scan(&queue, &ticket)
			all = append(all, exchange.Ref{Queue: string(queue), ID: hex.EncodeToString(ticket)})
			return err
		})
	return all, err
}

// Detach is an exchange for each ticket.
func (s *store) Detach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	return s.each(ctx, "CALL {p}strand(?,?,?)", o.ID, tickets)
}

// Attach is an exchange for each ticket.
func (s *store) Attach(ctx context.Context, o exchange.Session, tickets []exchange.Ref) error {
	return s.each(ctx, "CALL {p}unstrand(?,?,?)", o.ID, tickets)
}

func (s *store) each(ctx context.Context, text, session string, tickets []exchange.Ref) error {
	for _, t := range tickets {
		if _, err := s.call(ctx, text, []byte(t.Queue), id(t.ID), id(session)); err != nil {
			return err
		}
	}
	return nil
}

// lookSoon is when the first in line looks again though nobody holds.
const lookSoon = 200 * time.Millisecond

// perLook bounds the tickets of one statement.
const perLook = 250

// Flags of a ticket, see sql/tables.sql.
const (
	fixed   = 1
	evicted = 2
	revoked = 4
	stray   = 16
)

const (
	asked = `SELECT r.i, {now}, q.no, q.capacity, q.granted, q.token_offset, q.used, q.waiting, q.unclean,
	q.tickets > 0 AND q.id = r.id, COALESCE(t.session, q.session), COALESCE(t.since, q.since),
	t.n, t.units, t.hold, t.ends, COALESCE(t.flags, 0), t.token, s.ends, s.ttl, s.gone
FROM (`
	each  = `SELECT ? AS i, CAST(? AS BINARY) AS name, CAST(? AS BINARY) AS id` // as bound values they would be text
	found = `) r
	JOIN {p}queues q ON q.name = r.name
	LEFT JOIN {p}tickets t ON t.id = r.id AND t.queue = q.no
	LEFT JOIN {p}sessions s ON s.id = COALESCE(t.session, q.session)
WHERE t.id IS NOT NULL OR q.tickets > 0 AND q.id = r.id`
)

func (l *looking) read(r *sql.Rows) error {
	var i int
	var now, no, capacity, granted, offset, used, waiting, since, flags int64
	var unclean bool
	var lone sql.NullBool
	var holder []byte
	var n, units, hold, ends, token, sessionEnds, ttl, over sql.NullInt64
	err := r.Scan(&i, &now, &no, &capacity, &granted, &offset, &used, &waiting, &unclean, &lone, &holder, &since,
		&n, &units, &hold, &ends, &flags, &token, &sessionEnds, &ttl, &over)
	if err != nil {
		return err
	}
	if flags&fixed == 0 && hex.EncodeToString(holder) != l.session {
		return nil
	}
	end := endOf(flags, ends, sessionEnds, since, ttl)
	if end <= now {
		return nil
	}
	if lone.Bool {
		n.Int64 = granted
	}
	st := exchange.Status{State: exchange.Waiting, Revoked: flags&revoked != 0, Evicted: flags&evicted != 0, Stray: flags&stray != 0, Fixed: flags&fixed != 0}
	if ends.Valid {
		st.Left, st.Hold = micros(end-now), micros(hold.Int64)
	}
	if n.Int64 <= granted {
		st.State, st.Token, st.Inherited, st.Wanted = exchange.Held, uint64(n.Int64+offset), unclean, waiting > 0
		if token.Valid {
			st.Token = uint64(token.Int64)
		}
	} else {
		l.waits = append(l.waits, waiter{i, line{no, granted, used < capacity}, n.Int64, now, units.Int64 <= capacity-used})
	}
	l.into[i] = st
	return nil
}

// extend is a heartbeat, whose LAST_INSERT_ID is the end that stands then. Its time is that
// at which it began: where another one that began later was faster, what that has promised
// stays. Then no row is changed, but one is found.
const extend = "UPDATE {p}sessions SET ends = LAST_INSERT_ID(GREATEST(ends, {now} + ttl)) WHERE id = ? AND gone = 0 AND ends > {now}"
