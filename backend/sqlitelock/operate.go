package sqlitelock

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Ask finds the ticket of any session by its ID.
func (s *store) Ask(ctx context.Context, queue, id string, what driver.Demand) (unsettled bool, err error) {
	var n int64
	due := never
	if err := s.view(ctx, func(c conn, _ moment) (err error) {
		if due, err = c.due(); err != nil {
			return err
		}
		n, err = c.find(queue, id)
		return err
	}); err != nil {
		return false, err
	}
	if err := s.sweepIf(ctx, due); err != nil {
		return false, err
	}
	if n == 0 {
		return false, driver.ErrGone
	}
	return false, s.change(ctx, fast, func(t *tx) error {
		q, err := t.queue(queue)
		if err != nil {
			return err
		}
		p, err := t.ticket(q, n)
		if err != nil {
			return err
		}
		if p == nil || p.id != id {
			return driver.ErrGone
		}
		m := t.notify(p.sid, queue)
		switch {
		case what == driver.Revoke:
			m.Revoke = append(m.Revoke, n)
			p.flags |= revoked
		case what == driver.Force || !q.held(p):
			m.Evict, m.Gone = append(m.Evict, n), append(m.Gone, n)
			if err := t.remove(q, p, false); err != nil {
				return err
			}
			if err := t.grant(q); err != nil {
				return err
			}
			return t.save(q)
		default:
			m.Evict = append(m.Evict, n)
			l, err := t.lease(p.sid)
			if err != nil {
				return err
			}
			if p.flags |= evicted; p.is(fixed) {
				ttl := l.ttl
				if ttl == 0 { // the session is over
					ttl = defaultTTL
				}
				p.shorten(t.now.add(ttl))
			}
			p.ends = p.end(l)
			p.flags &^= stray
		}
		if err := t.update(q, p); err != nil {
			return err
		}
		return t.save(q)
	})
}

// defaultTTL is that of a session that is over, for its evicted tickets.
const defaultTTL = 15 * time.Second

// find finds the number of a ticket by its ID; 0 if it does not stand.
func (c conn) find(queue, id string) (n int64, err error) {
	for _, sql := range []string{
		"SELECT granted FROM queue WHERE name = ? AND id = ?",
		"SELECT n FROM ticket WHERE queue = ? AND id = ?",
	} {
		if _, err := c.one(sql, func(r *sqlite.Stmt) { n = r.ColumnInt64(0) }, queue, id); err != nil || n != 0 {
			return n, err
		}
	}
	return 0, nil
}

// shorten makes a fixed end come at a moment at the latest.
func (p *ticket) shorten(latest moment) {
	if p.ends > latest {
		p.wall -= int64(p.ends - latest)
		p.ends = latest
	}
}

// Resize is committed synchronously: the capacity outlasts a power loss.
func (s *store) Resize(ctx context.Context, queue string, capacity int64) (unsettled bool, err error) {
	due := never
	if err := s.view(ctx, func(c conn, _ moment) (err error) {
		due, err = c.due()
		return err
	}); err != nil {
		return false, err
	}
	if err := s.sweepIf(ctx, due); err != nil {
		return false, err
	}
	return false, s.change(ctx, durable, func(t *tx) error {
		q, err := t.queue(queue)
		switch {
		case err != nil:
			return err
		case q.tickets > 0 && q.kind != string(driver.Semaphore):
			return driver.ErrMismatch
		case capacity == 0 && !q.resized:
			return nil
		}
		q.resized = capacity > 0
		if q.resized {
			q.kind, q.capacity = string(driver.Semaphore), capacity
		}
		var never []ticket // fits any more
		if err := t.all("SELECT "+readTicket+" FROM ticket WHERE queue = ? AND n > ? AND units > ?", func(r *sqlite.Stmt) bool {
			var p ticket
			scanTicket(r, 0, &p)
			never = append(never, p)
			return true
		}, queue, q.granted, q.capacity); err != nil {
			return err
		}
		for i := range never {
			p := &never[i]
			m := t.notify(p.sid, queue)
			m.Evict, m.Gone = append(m.Evict, p.n), append(m.Gone, p.n)
			if err := t.remove(q, p, true); err != nil {
				return err
			}
		}
		if err := t.grant(q); err != nil {
			return err
		}
		return t.save(q)
	})
}

// Raise is committed synchronously: the floor outlasts a power loss.
func (s *store) Raise(ctx context.Context, queue string, floor uint64) error {
	return s.change(ctx, durable, func(t *tx) error { return t.raise(queue, int64(floor)) })
}

// RaiseAll is Raise for all queues.
func (s *store) RaiseAll(ctx context.Context, floor uint64) error {
	return s.change(ctx, durable, func(t *tx) error { return t.raiseAll(int64(floor)) })
}

func (t *tx) raise(queue string, floor int64) error {
	q, err := t.queue(queue)
	if err != nil {
		return err
	}
	if q.unknown {
		q.unknown = false
		if _, err := t.one("SELECT max(n) FROM ticket WHERE queue = ?", func(r *sqlite.Stmt) { q.last = max(q.last, q.granted, r.ColumnInt64(0)) }, queue); err != nil {
			return err
		}
		if err := t.store(q); err != nil {
			return err
		}
	}
	if q.tickets == 0 {
		q.last = max(q.last, floor)
		q.granted = q.last
		return t.store(q)
	}
	// Those that hold keep the tokens that they have; those that wait get
	// larger ones than their numbers say.
	lift := floor - (q.granted + q.shift)
	if lift <= 0 {
		return nil
	}
	if q.last+q.shift+lift >= driver.MaxToken {
		return exchange.ErrTokens
	}
	if q.lone != nil {
		if err := t.insert(q, q.lone); err != nil {
			return err
		}
		q.lone = nil
	}
	if err := t.exec("UPDATE ticket SET token = n + ? WHERE queue = ? AND n <= ? AND token IS NULL", q.shift, queue, q.granted); err != nil {
		return err
	}
	q.shift += lift
	return t.store(q)
}

func (t *tx) raiseAll(floor int64) error {
	if err := t.exec("UPDATE file SET floor = CASE WHEN floor BETWEEN 0 AND ?1 THEN max(floor, ?2) ELSE ?2 END", driver.MaxToken-1, floor); err != nil {
		return err
	}
	const simple = "tickets = 0 AND last BETWEEN 0 AND ?1 AND granted BETWEEN 0 AND ?1 AND shift = 0"
	if err := t.exec("UPDATE queue SET last = max(last, ?2), granted = max(last, ?2) WHERE "+simple, driver.MaxToken-1, floor); err != nil {
		return err
	}
	var used []string
	if err := t.all("SELECT name FROM queue WHERE "+named+" AND NOT ("+simple+")", func(r *sqlite.Stmt) bool {
		used = append(used, r.ColumnText(0))
		return true
	}, driver.MaxToken-1); err != nil {
		return err
	}
	for _, name := range used {
		if err := t.raise(name, floor); err != nil {
			return err
		}
	}
	return nil
}

// Settle goes on with the grants of the queue, and takes out what has expired in the whole file.
func (s *store) Settle(ctx context.Context, queue string) (unsettled bool, err error) {
	due := never
	if err := s.change(ctx, keep, func(t *tx) (err error) {
		if due, err = t.due(); err != nil {
			return err
		}
		return t.resume(queue)
	}); err != nil {
		return false, err
	}
	return false, s.sweepIf(ctx, due)
}

// Clock is that of tokens.
func (s *store) Clock(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }
