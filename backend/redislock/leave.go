package redislock

import (
	"context"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

func (s *store) Leave(ctx context.Context, l exchange.Leave) (unsettled bool, err error) {
	q := s.queue(l.Queue)
	if t := tag(l.Tag); t&lone != 0 {
		c := call{loneLeaveScript, q.keys[:1], []string{l.ID, s.words(l.Session).session}}
		if mark := t.leftMark(l.Clean); mark != "" {
			c.keys, c.args = q.loneKeys(), append(c.args, mark)
		}
		ok, err := s.run1(ctx, c)
		if ok == 1 || err != nil {
			return false, err
		}
		q.busy.Store(true)
	}
	answer, err := s.runN(ctx, s.leaving(q, &l), 3)
	if err != nil {
		return false, err
	}
	if answer[1] != 0 {
		q.busy.Store(false)
	}
	return answer[2] != 0, codeError(answer[0])
}

// leaving is the script that takes a ticket out.
func (s *store) leaving(q *queue, l *exchange.Leave) call {
	w := s.words(l.Session)
	return call{leaveScript, q.keys, []string{l.ID, w.session, digit(l.Clean), micros(l.Tombstone), w.ttl, digit(l.Unfixed)}}
}

// End has each ticket leave.
func (s *store) End(ctx context.Context, _ exchange.Session, tickets []exchange.Leave) (queues []string, failed error) {
	calls := make([]call, len(tickets))
	for i := range tickets {
		calls[i] = s.leaving(s.queue(tickets[i].Queue), &tickets[i])
	}
	s.each(ctx, 0, calls, func(i int, answer []int64, _ driver.Instant, err error) {
		switch {
		case err != nil:
			failed = err
		case len(answer) > 2 && answer[2] != 0:
			queues = append(queues, tickets[i].Queue)
		}
	})
	return queues, failed
}

func (s *store) Shrink(ctx context.Context, o exchange.Session, t exchange.Ref, units int64) (unsettled bool, err error) {
	return s.change(ctx, shrinkScript, t.Queue, t.ID, s.words(o).session, strconv.FormatInt(units, 10))
}

func (s *store) Keep(ctx context.Context, o exchange.Session, t exchange.Ref, d time.Duration) error {
	unsettled, err := s.change(ctx, keepScript, t.Queue, t.ID, s.words(o).session, micros(d+time.Microsecond))
	s.settle(ctx, t.Queue, unsettled)
	return err
}
