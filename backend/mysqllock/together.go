package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Changes of different queues without other tickets are one statement, which commits by itself: see short.go. It does
// not wait for a row, and changes nothing if one is locked: then each change goes alone, as on MySQL, whose
// statements wait for a second at least.
const (
	inNoTime = `SET STATEMENT innodb_lock_wait_timeout = 0 FOR UPDATE {p}queues q FORCE INDEX (PRIMARY) SET `

	shortJoins = inNoTime + `q.kind = %[2]s, q.capacity = %[3]s, q.used = %[4]s, q.id = %[5]s, q.session = %[6]s, q.note = %[7]s, q.tickets = 1, q.since = {now},
	q.last = GREATEST(q.last + 1, LEAST({now} DIV 10, {counted} - q.token_offset)),
	q.granted = GREATEST(q.granted + 1, LEAST({now} DIV 10, {counted} - q.token_offset))
WHERE q.name IN (%[1]s) AND q.tickets = 0 AND q.granted = q.last AND q.last + q.token_offset < {maxtoken} - 2
	AND q.unclean = 0 AND q.watched = 0 AND q.slow <= {now} AND %[8]s > {now}`
	shortTokens = `SELECT HEX(id), granted + token_offset FROM {p}queues WHERE tickets > 0 AND name IN (%s) AND id IN (%s)`

	// The tickets that it has removed are the last ones in a variable. A server takes a variable for a constant that is
	// not set in front of where it is read.
	shortLeaves = inNoTime + `q.unclean = IF(q.used = q.capacity, %[2]s, q.unclean), q.used = IF(q.tickets < 0, (@interlock_left := '') IS NULL, 0),
	q.tickets = IF((@interlock_left := RIGHT(CONCAT(COALESCE(@interlock_left, ''), HEX(q.id)), 1024)) IS NULL, 0, 0)
WHERE q.name IN (%[1]s) AND q.tickets = 1 AND q.id = %[3]s AND q.session = %[4]s AND q.watched = 0 AND %[5]s > {now}`
)

// perTogether bounds the changes of one statement.
const perTogether = 32

// together is the part of a list that goes as one statement.
type together struct {
	places  []int    // among the changes
	names   []string // as a statement has them
	ids     []string // as the server says them
	columns [7][]string
}

// add adds a change with its values.
func (l *together) add(i int, queue, ticket string, values ...string) {
	l.places, l.names, l.ids = append(l.places, i), append(l.names, literal(queue)), append(l.ids, strings.ToUpper(ticket))
	for k, v := range values {
		l.columns[k] = append(l.columns[k], v)
	}
}

func literal[T string | []byte](bytes T) string { return fmt.Sprintf("x'%x'", bytes) }

func number[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// values are the names, and for each column what it is in the row of each.
func (l *together) values() []any {
	all := []any{strings.Join(l.names, ", ")}
	for _, column := range l.columns {
		if len(column) == 0 {
			break
		}
		value := column[0]
		if slices.ContainsFunc(column, func(v string) bool { return v != value }) {
			value = "CASE q.name"
			for i, v := range column {
				value += " WHEN " + l.names[i] + " THEN " + v
			}
			value += " END"
		}
		all = append(all, value)
	}
	return all
}

// Change is one statement for what the short way is open to.
func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	if exchange.OneQueue(changes) {
		exchange.Each(ctx, s, changes, answer)
		return
	}
	apart := slices.Repeat([]exchange.Answer{{Err: exchange.ErrAlone}}, len(changes))
	answers := slices.Clone(apart)
	err := s.exchangeIf(ctx, func(c *sql.Conn, on link) error {
		copy(answers, apart) // it may be tried again
		if !on.short || s.apart.Load() {
			return nil
		}
		joins, leaves, err := s.shortWay(ctx, c, on, changes)
		if err != nil {
			return err
		}
		return errors.Join(s.joinTogether(ctx, c, joins, answers), s.leaveTogether(ctx, c, leaves, answers))
	})
	for i, a := range answers {
		if err != nil && a.Err != nil {
			a.Err = err
		}
		answer(i, a)
	}
}

// shortWay are the changes that the short way may be open to, on a connection.
func (s *store) shortWay(ctx context.Context, c *sql.Conn, on link, changes []exchange.Change) (joins, leaves *together, err error) {
	joins, leaves = &together{}, &together{}
	lives := map[string]int64{} // ends of sessions; 0: not known to be there
	ends := func(session string) int64 {
		at, asked := lives[session]
		if known, ok := s.ends.of(session, on.since); ok {
			at = known
		} else if !asked && err == nil {
			err = c.QueryRowContext(ctx, s.sql("SELECT COALESCE(MAX(ends), 0) FROM {p}sessions WHERE id = ? AND gone = 0"), id(session)).Scan(&at)
		}
		lives[session] = at
		return at
	}
	met := map[string]bool{} // a statement changes each row once
	for i, c := range changes {
		if met[c.In()] || s.crowds.has(c.In()) {
			continue
		}
		met[c.In()] = true
		switch c := c.(type) {
		case *exchange.Join:
			if !c.Retry && c.Hold == 0 && len(c.Kind) <= 64 {
				joins.add(i, c.Queue, c.ID, literal(string(c.Kind)), number(c.Capacity), number(c.Units), literal(id(c.ID)), literal(id(c.Session.ID)), literal(c.Note), number(ends(c.Session.ID)))
			}
		case *exchange.Leave:
			if c.Tombstone == 0 && !c.Waited {
				leaves.add(i, c.Queue, c.ID, strconv.FormatBool(!c.Clean), literal(id(c.ID)), literal(id(c.Session.ID)), number(ends(c.Session.ID)))
			}
		}
	}
	return joins, leaves, err
}

// errOpen: a ticket is not as the statement has left it when it is asked for.
var errOpen = errors.New("mysql: others have changed a ticket meanwhile")

// changeTogether makes a list, and returns how many of it were made.
func (s *store) changeTogether(ctx context.Context, c *sql.Conn, text string, l *together) (int, error) {
	if len(l.places) == 0 {
		return 0, nil
	}
	var made result
	err := made.read(c.ExecContext(ctx, fmt.Sprintf(s.sql(text), l.values()...)))
	if refusal := (*mysql.MySQLError)(nil); errors.As(err, &refusal) && !database.Number(err, erDeadlock, erCheckRead, erCommit) {
		if refusal.Number == erParse {
			s.apart.Store(true)
		}
		return 0, nil // it had no effect
	}
	if err == nil && (made.changed < 0 || made.changed > int64(len(l.places))) {
		err = errAnswer
	}
	return int(made.changed), err
}

func (s *store) joinTogether(ctx context.Context, c *sql.Conn, l *together, answers []exchange.Answer) error {
	made, err := s.changeTogether(ctx, c, shortJoins, l)
	if made == 0 || err != nil {
		return err
	}
	rows, err := c.QueryContext(ctx, fmt.Sprintf(s.sql(shortTokens), l.values()[0], strings.Join(l.columns[3], ", ")))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var ticket string
		var token uint64
		if err := rows.Scan(&ticket, &token); err != nil {
			return err
		}
		if k := slices.Index(l.ids, ticket); k >= 0 {
			answers[l.places[k]] = exchange.Answer{Status: exchange.Status{State: exchange.Held, Token: token}}
			made--
		}
	}
	if err := rows.Err(); err != nil || made == 0 {
		return err
	}
	return errOpen
}

func (s *store) leaveTogether(ctx context.Context, c *sql.Conn, l *together, answers []exchange.Answer) error {
	made, err := s.changeTogether(ctx, c, shortLeaves, l)
	if made == 0 || err != nil {
		return err
	}
	left := strings.Join(l.ids, "")
	if made < len(l.ids) {
		var last sql.NullString
		if err := c.QueryRowContext(ctx, "SELECT @interlock_left").Scan(&last); err != nil {
			return err
		}
		left = last.String[max(0, len(last.String)-made*hexID):]
	}
	for id := range slices.Chunk([]byte(left), hexID) {
		if k := slices.Index(l.ids, string(id)); k >= 0 {
			answers[l.places[k]].Err = nil
			made--
		}
	}
	if made > 0 {
		return errOpen
	}
	return nil
}

const hexID = 32 // how many hexadecimal digits an ID has
