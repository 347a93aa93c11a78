package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// A queue that nobody else is in is joined and left by one statement, which commits by
// itself: that costs the server much less than a procedure does. Whatever it cannot do
// it leaves alone, and the procedure is called.
//
// The statement does not know the time at which it gets the queue's lock, only that of
// its beginning, with which it compares: so it can only refuse more, and say an earlier
// time than is true. No column is computed from one that is set before it, since
// sql_mode decides which value that has then.
const (
	shortJoin = `UPDATE {p}queues q SET q.kind = ?, q.capacity = ?, q.used = ?, q.id = ?, q.session = ?, q.note = ?, q.tickets = 1, q.since = {now},
	q.last = LAST_INSERT_ID(GREATEST(q.last + 1, LEAST({now} DIV 10, {counted} - q.token_offset)) + q.token_offset) - q.token_offset,
	q.granted = GREATEST(q.granted + 1, LEAST({now} DIV 10, {counted} - q.token_offset))
WHERE q.name = ? AND q.tickets = 0 AND q.granted = q.last AND q.last + q.token_offset < {maxtoken} - 2
	AND q.unclean = 0 AND q.watched = 0 AND q.slow <= {now} AND `

	shortLeave = `UPDATE {p}queues q SET q.unclean = IF(q.used = q.capacity, ?, q.unclean), q.used = 0, q.tickets = 0
WHERE q.name = ? AND q.tickets = 1 AND q.id = ? AND q.session = ? AND q.watched = 0 AND `
)

// The end of both: the session is not over. It is looked up by a value that is only known
// with the queue's row: were it locked before that, heartbeats would wait for whatever
// this statement waits for. If this client knows an end that the session has at least, it
// is not looked up: see sessionEnds.
const (
	looked = `(SELECT s.ends FROM {p}sessions s FORCE INDEX (PRIMARY) WHERE s.id = IF(q.tickets < 2, CAST(? AS BINARY), NULL) AND s.gone = 0 LOCK IN SHARE MODE) > {now}`
	known  = `? > {now}`
)

// short is such a statement with each of these ends.
type short struct{ looked, known string }

var (
	joinAlone  = short{shortJoin + looked, shortJoin + known}
	leaveAlone = short{shortLeave + looked, shortLeave + known}
)

// shortJoin makes a ticket that is held at once and alone.
func (s *store) shortJoin(ctx context.Context, j *exchange.Join) (token uint64, ok bool, err error) {
	if j.Retry || j.Hold > 0 || s.crowds.has(j.Queue) {
		return 0, false, nil
	}
	made, err := s.alone(ctx, j.Session.ID, joinAlone, []byte(j.Kind), j.Capacity, j.Units, id(j.ID), id(j.Session.ID), notNil(j.Note), []byte(j.Queue))
	if err != nil {
		return 0, false, err
	}
	return uint64(made.id), made.changed == 1, nil
}

// shortLeave removes the only ticket of a queue, if no Join of it can come any more.
func (s *store) shortLeave(ctx context.Context, l *exchange.Leave) (ok bool, err error) {
	if l.Tombstone > 0 || l.Waited || s.crowds.has(l.Queue) { // who has waited has a row of its own
		return false, nil
	}
	made, err := s.alone(ctx, l.Session.ID, leaveAlone, !l.Clean, []byte(l.Queue), id(l.ID), id(l.Session.ID))
	if err == nil && made.changed == 0 {
		s.crowds.add(l.Queue)
	}
	return made.changed == 1, err
}

// alone makes an exchange of one such statement, which changes nothing if the connection
// may not take the short way.
func (s *store) alone(ctx context.Context, session string, text short, args ...any) (made result, err error) {
	err = s.exchangeIf(ctx, func(c *sql.Conn, l link) error {
		if !l.short {
			return nil
		}
		ends, ok := s.ends.of(session, l.since)
		if !ok {
			return made.read(c.ExecContext(ctx, s.sql(text.looked), append(args, id(session))...))
		}
		return made.quick(ctx, c, s.sql(text.known), append(args, ends))
	})
	return made, err
}

// quick is the result of one of a few texts, that of a prepared statement if the pool is
// the store's.
func (r *result) quick(ctx context.Context, c *sql.Conn, text string, args []any) error {
	err := c.Raw(func(it any) error {
		own, is := it.(*conn)
		if !is {
			return sqldriver.ErrSkip
		}
		return r.read(own.execQuick(ctx, text, args))
	})
	if errors.Is(err, sqldriver.ErrSkip) {
		return r.read(c.ExecContext(ctx, text, args...))
	}
	return err
}

// crowds are queues in which others were met a moment ago, so that the short way is
// most likely none. Some may be taken for others.
type crowds struct {
	until [256]atomic.Int64
}

const crowdedFor = time.Second

var seed = maphash.MakeSeed()

func (c *crowds) at(queue string) *atomic.Int64 {
	return &c.until[maphash.String(seed, queue)%uint64(len(c.until))]
}

func (c *crowds) has(queue string) bool { return c.at(queue).Load() > int64(driver.Now()) }

func (c *crowds) add(queue string) { c.at(queue).Store(int64(driver.Now().Add(crowdedFor))) }
