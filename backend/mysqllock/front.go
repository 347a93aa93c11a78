package mysqllock

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/driver/exchange"
)

// line is a queue's number, the largest number that was granted in it, and whether
// something is free there.
type line struct {
	no, granted int64
	free        bool
}

// waiter is a ticket that waits, as one statement has seen it.
type waiter struct {
	i    int // which of the standings
	line line
	n    int64
	now  int64
	fits bool
}

// front is the beginning of a line.
type front struct {
	ns  []int64       // of the first {most} that wait
	due sql.NullInt64 // when the first of those that hold ends

	// When the first in line ends, while something is free that is too little for it: until
	// then it is in the way of those behind.
	head sql.NullInt64
}

// lookAhead finds out who is near the front: {most} at most learn when a holder ends.
// His session does, unless he has an end of his own.
//
// It is a statement of its own, with the numbers written into it: with a join, MySQL would scan
// the whole queue once per ticket. A line that has moved on meanwhile has them look once too
// often.
func (s *store) lookAhead(ctx context.Context, waits []waiter, into []exchange.Status) error {
	lines := map[line]*front{}
	var order []line
	for _, w := range waits {
		if lines[w.line] == nil {
			lines[w.line] = &front{}
			order = append(order, w.line)
		}
	}
	for some := range slices.Chunk(order, perAhead) {
		if err := s.fronts(ctx, some, lines); err != nil {
			return err
		}
	}
	near(waits, func(l line) *front { return lines[l] }, into)
	return nil
}

// near says of those that are near the front when to look again.
func near(waits []waiter, of func(line) *front, into []exchange.Status) {
	for _, w := range waits {
		f := of(w.line)
		ahead, near := slices.BinarySearch(f.ns, w.n)
		if !near {
			continue
		}
		st := &into[w.i]
		due := f.due
		if ahead > 0 && f.head.Valid && due.Valid {
			due.Int64 = min(due.Int64, f.head.Int64)
		}
		if st.Ahead = ahead; due.Valid {
			st.Due = micros(max(1, due.Int64-w.now))
			st.Unsettled = due.Int64 <= w.now || ahead == 0 && w.fits
		} else { // nothing is granted for a while, or somebody is about to
			st.Due, st.Unsettled = lookSoon, ahead == 0
		}
	}
}

// perAhead bounds the lines of one statement.
const perAhead = 50

const (
	firstInLine = `(SELECT ? AS i, n, NULL AS due, 0 AS waits FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = ? AND n > ? ORDER BY n LIMIT {most})`
	firstToEnd  = `(SELECT ?, NULL, MIN(` + endOfTicket + `), 0
	FROM {p}tickets t FORCE INDEX (PRIMARY) LEFT JOIN {p}sessions s ON s.id = t.session WHERE t.queue = ? AND t.n <= ?)`
	endOfFirst = `(SELECT ?, NULL, ` + endOfTicket + `, 1
	FROM (SELECT * FROM {p}tickets FORCE INDEX (PRIMARY) WHERE queue = ? AND n > ? ORDER BY n LIMIT 1) t LEFT JOIN {p}sessions s ON s.id = t.session)`

	endOfTicket = `COALESCE(t.ends, GREATEST(s.ends, t.since + s.ttl), 0)`
)

func (s *store) fronts(ctx context.Context, lines []line, into map[line]*front) error {
	var parts []string
	var args []any
	for i, l := range lines {
		parts = append(parts, firstInLine, firstToEnd)
		args = append(args, i, l.no, l.granted, i, l.no, l.granted)
		if l.free {
			parts = append(parts, endOfFirst)
			args = append(args, i, l.no, l.granted)
		}
	}
	begin := func() {
		for _, l := range lines {
			*into[l] = front{}
		}
	}
	return s.rows(ctx, strings.Join(parts, " UNION ALL "), args, begin, func(r *sql.Rows) error {
		return readFront(r, func(i int) *front { return into[lines[i]] })
	})
}

func readFront(r *sql.Rows, of func(i int) *front) error {
	var i int
	var waits bool
	var n, due sql.NullInt64
	if err := r.Scan(&i, &n, &due, &waits); err != nil {
		return err
	}
	switch f := of(i); {
	case n.Valid:
		f.ns = append(f.ns, n.Int64)
	case waits:
		f.head = due
	default:
		f.due = due
	}
	return nil
}
