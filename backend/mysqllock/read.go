package mysqllock

import (
	"context"
	"database/sql"
	"encoding/hex"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

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
	for i := range all {
		if q := &all[i].Queue; len(q.Members) == 0 && !q.Resized { // the row has its last ones
			q.Kind, q.Capacity = "", 0
		}
	}
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

func (s *store) List(ctx context.Context, prefix, after string) ([]exchange.Snapshot, string, error) {
	all, last, count, err := s.read(ctx, "name >= ? AND name > ? AND LEFT(name, ?) = ? AND tickets > 0 ORDER BY name LIMIT ?",
		[]byte(prefix), []byte(after), len(prefix), []byte(prefix), perList)
	if count < perList {
		last = ""
	}
	return all, last, err
}
