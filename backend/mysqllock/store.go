package mysqllock

import (
	"context"
	"database/sql"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

// store is the exchanges of package exchange with one database, for one or more clients of this process: see share.
type store struct {
	db     *sql.DB    // for exchanges
	news   *sql.DB    // for the two connections that listen
	own    bool       // the pools are closed with the driver
	to     *connector // of db, if it is the store's own
	most   int        // connections of a pool for exchanges that is the store's own
	prefix string

	place       any // its key in stores
	users       int // guarded by stores.mu
	limiter     *exchange.Limiter
	mailbox     string
	subscribers subscribers
	ttl         atomic.Int64 // the shortest of all sessions

	oneNode  bool        // of a Galera cluster, for all clients
	apart    atomic.Bool // the server takes no lists
	unproven bool        // TLS takes whoever answers for the server

	walk   walk
	crowds crowds
	ends   sessionEnds

	texts  sync.Map     // SQL with the names of this driver's tables, by what it was made of
	texted atomic.Int64 // how many

	mu       sync.Mutex
	narrowed bool         // the pool has fewer connections for a moment: see connect
	at       string       // the history of the last connection that was greeted
	leave    func()       // ends the listening when that changes
	greeted  map[any]link // by connection of a pool that is not the store's, as the MySQL driver has it
}

// link is a connection that was greeted.
type link struct {
	since driver.Instant // it has been there since before then
	short bool           // it may take the short way

	history string // see exchange.Renewal
}

// mostTexts bounds the statements that are remembered: some are as long as what they
// are asked about.
const mostTexts = 500

func (s *store) sql(text string) string {
	if made, ok := s.texts.Load(text); ok {
		return made.(string)
	}
	made := expand(text, s.prefix)
	if s.texted.Add(1) > mostTexts {
		s.texted.Store(0)
		s.texts.Clear()
	}
	s.texts.Store(text, made)
	return made
}

// tries bounds how often an exchange is made again that has got into the way of another.
const tries = 20

// exchange gives f a connection until it has succeeded, or has had an effect that
// nobody knows. A connection on which something else has failed is not used again: a
// procedure that was killed leaves its transaction open.
func (s *store) exchange(ctx context.Context, f func(*sql.Conn) error) error {
	return s.exchangeIf(ctx, func(conn *sql.Conn, _ link) error { return f(conn) })
}

// exchangeIf also says what is known of the connection. It makes the tables again if they are not
// there any more: the server came back empty, or somebody has dropped them.
func (s *store) exchangeIf(ctx context.Context, f func(*sql.Conn, link) error) error {
	err := s.tried(ctx, f)
	if !database.Missing(err) {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.tried(ctx, f)
}

func (s *store) tried(ctx context.Context, f func(*sql.Conn, link) error) error {
	for try := 1; ; try++ {
		conn, err := s.connect(ctx)
		if err != nil {
			return err
		}
		l, err := s.greet(ctx, conn)
		if err == nil {
			err = f(conn, l)
		}
		if err == nil {
			_ = conn.Close()
			return nil
		}
		if !undone(err) || try == tries {
			database.Discard(conn)
			return err
		}
		rollBack(ctx, conn)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rand.N(time.Duration(try) * time.Millisecond)):
		}
	}
}

// rollBack gives a connection back on which an exchange had no effect. A new one would cost
// much more, on a server that is busy and asked again by many clients.
func rollBack(ctx context.Context, conn *sql.Conn) {
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		database.Discard(conn)
		return
	}
	_ = conn.Close()
}

// greet has a server that comes back from a crash end what it may have forgotten, before
// anything else is said on a connection: none of those from before is left. The
// connection may take the short way if the server has forgotten nothing, or nobody who
// holds may have been forgotten any more: that way does not look for it.
func (s *store) greet(ctx context.Context, conn *sql.Conn) (l link, err error) {
	var this any
	if err := conn.Raw(func(c any) error { this = c; return nil }); err != nil {
		return link{}, err
	}
	l, ok := s.links(this)
	if ok {
		return l, nil
	}
	err = conn.QueryRowContext(ctx, s.sql("SELECT NOT {forgets} OR COALESCE((SELECT until <= {now} FROM {p}boot WHERE one = 1), 0), {history}")).Scan(&l.short, &l.history)
	if err == nil && !l.short {
		_, err = conn.ExecContext(ctx, s.sql("CALL {p}recover()"))
	}
	if database.Missing(err) {
		return link{}, nil // the tables are still to be made
	}
	if err != nil {
		return link{}, err
	}
	l.since = driver.Now()
	s.linked(this, l)
	s.isAt(l.history)
	return l, nil
}

func (s *store) links(this any) (l link, ok bool) {
	if own, is := this.(*conn); is {
		if own.link == nil {
			return l, false
		}
		return *own.link, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok = s.greeted[this]
	return l, ok
}

func (s *store) linked(this any, l link) {
	if own, is := this.(*conn); is {
		own.link = &l
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.greeted == nil || len(s.greeted) >= mostGreeted {
		s.greeted = map[any]link{}
	}
	s.greeted[this] = l
}

// mostGreeted bounds the connections that are remembered; those that were forgotten are
// greeted again.
const mostGreeted = 500

// row makes an exchange that answers with one row.
func (s *store) row(ctx context.Context, text string, args []any, into ...any) error {
	text = s.sql(text)
	return s.exchange(ctx, func(c *sql.Conn) error { return c.QueryRowContext(ctx, text, args...).Scan(into...) })
}

// living is row for a procedure whose last argument is an end that the session has at least. 0: none is known; -1: the
// connection may not take the short way.
func (s *store) living(ctx context.Context, session, text string, args []any, into ...any) error {
	text = s.sql(text)
	return s.exchangeIf(ctx, func(c *sql.Conn, l link) error {
		ends, ok := s.ends.of(session, l.since)
		switch {
		case !l.short:
			ends = -1
		case !ok:
			ends = 0
		}
		return c.QueryRowContext(ctx, text, append(args, ends)...).Scan(into...)
	})
}

// exec makes an exchange that answers with nothing.
func (s *store) exec(ctx context.Context, text string, args ...any) error {
	text = s.sql(text)
	return s.exchange(ctx, func(c *sql.Conn) error {
		_, err := c.ExecContext(ctx, text, args...)
		return err
	})
}

// result is what a statement has changed.
type result struct {
	changed int64
	id      int64 // the value of LAST_INSERT_ID, if a row was found
}

func (r *result) read(got sql.Result, err error) error {
	if err != nil {
		return err
	}
	if r.id, err = got.LastInsertId(); err != nil {
		return err
	}
	r.changed, err = got.RowsAffected()
	return err
}

// rows makes an exchange that answers with several rows.
func (s *store) rows(ctx context.Context, text string, args []any, begin func(), each func(*sql.Rows) error) error {
	text = s.sql(text)
	return s.exchange(ctx, func(c *sql.Conn) error {
		begin()
		rows, err := c.QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := each(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// names reads queues.
func (s *store) names(ctx context.Context, text string, args ...any) (all []string, err error) {
	err = s.rows(ctx, text, args, func() { all = nil }, func(r *sql.Rows) error {
		var name []byte
		err := r.Scan(&name)
		all = append(all, string(name))
		return err
	})
	return all, err
}

// call is a procedure that answers with a code and whether there is more to do.
func (s *store) call(ctx context.Context, text string, args ...any) (unsettled bool, err error) {
	var code int64
	if err := s.row(ctx, text, args, &code, &unsettled); err != nil {
		return unsettled, err
	}
	return unsettled, sqlcode.Err(code)
}

// id is an ID as the tables have it. Bytes, unlike strings, have no character set.
func id(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		return []byte(s) // as long as no ID: nothing is found
	}
	return b
}

// Traits: a list is one statement. One may wait for its commit, or for a server that does not answer.
func (s *store) Traits() exchange.Traits {
	return exchange.Traits{Together: perTogether, Patience: 5 * time.Millisecond,
		Prompt: func(c exchange.Change) bool { return !s.crowds.has(c.In()) }}
}

func (s *store) Begin(ctx context.Context, n exchange.Session) (begun exchange.Begun, err error) {
	text, frozen := s.sql("CALL {p}begin(?,?,?,?)"), s.sql("SELECT COALESCE((SELECT GREATEST(until - {now}, 0) FROM {p}boot WHERE one = 1 AND {forgets}), 0)")
	var sent driver.Instant
	var ends int64
	err = s.exchangeIf(ctx, func(c *sql.Conn, l link) error {
		sent, begun.History = driver.Now(), l.history
		err := c.QueryRowContext(ctx, text, id(n.ID), n.TTL.Microseconds(), cut(n.Owner), []byte(n.Mailbox)).Scan(&ends)
		var paused int64
		if err == nil && !l.short {
			err = c.QueryRowContext(ctx, frozen).Scan(&paused)
		}
		begun.Paused = micros(paused) // see recover in sql/inner.sql
		return err
	})
	for old := s.ttl.Load(); old > int64(n.TTL) && !s.ttl.CompareAndSwap(old, int64(n.TTL)); old = s.ttl.Load() {
	}
	if err == nil {
		s.ends.begin(n.ID, n.TTL, sent, ends)
	}
	return begun, err
}

func cut(owner string) []byte { return []byte(owner)[:min(len(owner), 1024)] }

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// ceil is a time in microseconds, not less than it was.
func ceil(d time.Duration) int64 { return (d + time.Microsecond - 1).Microseconds() }

// list is n times text, with commas between.
func list(n int, text, between string) string {
	return strings.TrimSuffix(strings.Repeat(text+between, n), between)
}
