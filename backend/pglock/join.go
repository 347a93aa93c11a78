package pglock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/sqlcode"
)

// Change makes changes of different queues without other tickets in one call, if their rows are free. The
// others go alone.
func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	if exchange.OneQueue(changes) {
		exchange.Each(ctx, s, changes, answer)
		return
	}
	var joins, leaves list
	for i, c := range changes {
		j, is := c.(*exchange.Join)
		l, _ := c.(*exchange.Leave)
		switch {
		case s.crowds.has(c.In()):
			answer(i, exchange.Answer{Err: exchange.ErrAlone})
		case is && j.Hold == 0 && !j.Retry:
			joins.add(i, j.Queue, j.ID, j.Session.ID)
			joins.kinds, joins.notes = append(joins.kinds, string(j.Kind)), append(joins.notes, j.Note)
			joins.capacities, joins.units = append(joins.capacities, j.Capacity), append(joins.units, j.Units)
		case l != nil && l.Tombstone == 0:
			leaves.add(i, l.Queue, l.ID, l.Session.ID)
			leaves.cleans = append(leaves.cleans, l.Clean)
		default:
			answer(i, exchange.Answer{Err: exchange.ErrAlone})
		}
	}
	s.call(ctx, &joins, answer, "joins", 3, joins.queues, joins.kinds, joins.capacities, joins.ids, joins.units, joins.sessions, joins.notes)
	s.call(ctx, &leaves, answer, "leaves", 1, leaves.queues, leaves.ids, leaves.sessions, leaves.cleans)
}

// list is the columns of what a function is to make.
type list struct {
	places                       []int // among the changes
	queues, ids, sessions, kinds []string
	capacities, units            []int64
	notes                        [][]byte
	cleans                       []bool
}

func (l *list) add(i int, queue, id, session string) {
	l.places, l.queues = append(l.places, i), append(l.queues, queue)
	l.ids, l.sessions = append(l.ids, id), append(l.sessions, session)
}

// call calls a function that makes a list, and answers each of the list. The function says so many numbers of each that
// it has made.
func (s *store) call(ctx context.Context, l *list, answer func(int, exchange.Answer), name string, numbers int, args ...any) {
	if len(l.places) == 0 {
		return
	}
	made, err := rows[[]int64](ctx, s, name, args...)
	switch {
	case damaged(err): // nothing was done: the name that it is about goes alone, as all others do
		made, err = nil, nil
	case err != nil:
		made = nil // it may say so of the commit
	case slices.ContainsFunc(made, func(m []int64) bool { return len(m) != numbers || m[0] < 1 || m[0] > int64(len(l.places)) }):
		made, err = nil, fmt.Errorf("postgres: %s has answered what it was not asked", name)
	}
	answers := make([]exchange.Answer, len(l.places))
	for i := range answers {
		answers[i].Err = cmp.Or(err, exchange.ErrAlone)
	}
	for _, m := range made {
		a := exchange.Answer{}
		if numbers == 3 {
			a.Status = exchange.Status{State: exchange.Held, Token: uint64(m[1]), Inherited: m[2] != 0}
		}
		answers[m[0]-1] = a
	}
	for i, a := range answers {
		answer(l.places[i], a)
	}
}

func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	if j.Hold == 0 && !j.Retry && s.alone(j.Queue) {
		token, err := rows[int64](ctx, s, "take", j.Queue, string(j.Kind), j.Capacity, j.ID, j.Units, j.Session.ID, j.Note)
		if err != nil {
			return exchange.Status{}, err
		}
		if len(token) == 1 {
			return exchange.Status{State: exchange.Held, Token: uint64(max(token[0], -token[0])), Inherited: token[0] < 0}, nil
		}
	}
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
		st.Found = len(got) > statusNumbers
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
