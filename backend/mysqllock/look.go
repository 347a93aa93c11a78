package mysqllock

import (
	"context"
	"database/sql"
	"encoding/hex"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// lookSoon is when the first in line looks again though nobody holds.
const lookSoon = 200 * time.Millisecond

// perLook bounds the tickets of one statement.
const perLook = 250

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
	each  = `SELECT ? AS i, ? AS name, ? AS id`
	found = `) r
	JOIN {p}queues q ON q.name = r.name
	LEFT JOIN {p}tickets t ON t.id = r.id AND t.queue = q.no
	LEFT JOIN {p}sessions s ON s.id = COALESCE(t.session, q.session)
WHERE t.id IS NOT NULL OR q.tickets > 0 AND q.id = r.id`
)

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

// perList bounds the queues of one statement.
const perList = 100

const (
	queues = `SELECT {now}, q.name, q.no, q.kind, q.capacity, q.granted, q.token_offset, q.used, COALESCE(t.id, IF(q.tickets > 0, q.id, NULL)), COALESCE(t.session, q.session),
	COALESCE(t.since, q.since), LEFT(COALESCE(t.note, q.note), 65536), t.n, t.units, t.ends, COALESCE(t.flags, 0), t.token, COALESCE(t.owner, s.owner), s.ends, s.ttl, q.slow = {forever}
FROM (SELECT * FROM {p}queues WHERE `
	members = `) q
	LEFT JOIN {p}tickets t ON t.queue = q.no
	LEFT JOIN {p}sessions s ON s.id = COALESCE(t.session, q.session)
ORDER BY q.name, t.n`
)

// read reads queues with their members, and the name of the last one.
func (s *store) read(ctx context.Context, where string, args ...any) (all []exchange.Snapshot, last string, count int, err error) {
	err = s.rows(ctx, queues+where+members, args, func() { all, last, count = nil, "", 0 }, func(r *sql.Rows) error {
		var now, no, capacity, granted, offset, used, since, flags int64
		var name, kind, ticket, holder, note, owner []byte
		var n, units, ends, token, sessionEnds, ttl sql.NullInt64
		var resized bool
		err := r.Scan(&now, &name, &no, &kind, &capacity, &granted, &offset, &used, &ticket, &holder, &since, &note, &n, &units, &ends, &flags, &token, &owner, &sessionEnds, &ttl, &resized)
		if err != nil {
			return err
		}
		if string(name) != last {
			last = string(name)
			count++
			all = append(all, exchange.Snapshot{
				Queue: driver.Queue{Name: last, Kind: driver.Kind(kind), Capacity: capacity, Resized: resized},
				At:    time.UnixMicro(now),
			})
		}
		q := &all[len(all)-1]
		if ticket == nil {
			return nil
		}
		end := endOf(flags, ends, sessionEnds, since, ttl)
		if end <= now {
			return nil
		}
		if !n.Valid { // it is kept in the queue's row
			n.Int64, units.Int64 = granted, used
		}
		m := driver.Member{
			ID: hex.EncodeToString(ticket), Owner: string(owner), Note: note, Units: units.Int64, Held: n.Int64 <= granted,
			Since: time.UnixMicro(since), Left: micros(end - now), Fixed: flags&fixed != 0,
		}
		if len(note) == 0 {
			m.Note = nil
		}
		if m.Held {
			m.Token = uint64(n.Int64 + offset)
			if token.Valid {
				m.Token = uint64(token.Int64)
			}
		}
		q.Members = append(q.Members, m)
		return nil
	})
	return all, last, count, err
}

func (s *store) Read(ctx context.Context, queue string, f exchange.Follower) (exchange.Snapshot, error) {
	if f.Mailbox != "" {
		if err := s.exec(ctx, "CALL {p}watch(5,?,?)", []byte(queue), []byte(f.Mailbox)); err != nil {
			return exchange.Snapshot{}, err
		}
	}
	all, _, _, err := s.read(ctx, "name = ?", []byte(queue))
	if err != nil {
		return exchange.Snapshot{}, err
	}
	if len(all) == 0 {
		all = append(all, exchange.Snapshot{Queue: driver.Queue{Name: queue}, At: time.Now()})
	}
	return all[0], nil
}

func (s *store) Cells(ctx context.Context, prefix, after string) (names []string, next string, err error) {
	err = s.rows(ctx, "SELECT name FROM {p}cells WHERE name >= ? AND name > ? AND LEFT(name, ?) = ? AND present ORDER BY name LIMIT ?",
		[]any{[]byte(prefix), []byte(after), len(prefix), []byte(prefix), perList},
		func() { names = nil },
		func(r *sql.Rows) error {
			var name []byte
			err := r.Scan(&name)
			names = append(names, string(name))
			return err
		})
	if len(names) == perList {
		next = names[len(names)-1]
	}
	return names, next, err
}

func (s *store) List(ctx context.Context, prefix, after string) ([]exchange.Snapshot, string, error) {
	all, last, count, err := s.read(ctx, "name >= ? AND name > ? AND LEFT(name, ?) = ? AND tickets > 0 ORDER BY name LIMIT ?",
		[]byte(prefix), []byte(after), len(prefix), []byte(prefix), perList)
	if count < perList {
		last = ""
	}
	return all, last, err
}
