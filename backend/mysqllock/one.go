package mysqllock

import (
	"context"
	"database/sql"
	"strings"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// one extends the session, if it is to, and reads one ticket. Most clients that wait have
// no other: so their heartbeats are one exchange each.
func (s *store) one(ctx context.Context, session string, t exchange.Ref, renew bool) (exchange.Renewal, error) {
	text := s.sql("CALL {p}one(?,?,?,?)")
	var sent driver.Instant
	var extended bool
	var ends int64
	var history string
	var st [1]exchange.Status
	err := s.exchangeIf(ctx, func(c *sql.Conn, on link) error {
		l := &looking{session: session, into: st[:]}
		l.begin()
		sent, history = driver.Now(), on.history
		rows, err := c.QueryContext(ctx, text, id(session), renew, []byte(t.Queue), id(t.ID))
		if err != nil {
			return err
		}
		defer rows.Close()
		var f front
		for _, read := range []func() error{
			func() error { return rows.Scan(&extended, &ends) },
			func() error { return l.read(rows) },
			func() error { return readFront(rows, func(int) *front { return &f }) },
		} {
			for rows.Next() {
				if err := read(); err != nil {
					return err
				}
			}
			if !rows.NextResultSet() {
				break
			}
		}
		near(l.waits, func(line) *front { return &f }, st[:])
		return rows.Err()
	})
	switch {
	case err != nil:
		return exchange.Renewal{}, err
	case !extended:
		s.ends.end(session)
		return exchange.Renewal{}, driver.ErrSession
	case renew:
		s.ends.renewed(session, sent, ends)
	}
	return exchange.Renewal{Tickets: st[:], History: history}, nil
}

// The statements of Renew, look and fronts, for one ticket, with variables of the procedure.
var (
	extendOne  = fill(extend, "p_session")
	askedOfOne = fill(asked+each+found, "0", "p_queue", "p_id")
	frontOfOne = fill(firstInLine, "0", "v_no", "v_granted") + " UNION ALL " + fill(firstToEnd, "0", "v_no", "v_granted")
	headOfOne  = fill(endOfFirst, "0", "v_no", "v_granted")
)

// fill puts these in the places of the question marks, and everything in one line: see
// split.
func fill(text string, each ...string) string {
	for _, one := range each {
		text = strings.Replace(text, "?", one, 1)
	}
	return strings.Join(strings.Fields(text), " ")
}
