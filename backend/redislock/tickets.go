package redislock

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// tag is what a status says of a lone ticket, which take.lua has granted: its token, and these
// bits. That of any other is 0.
type tag uint64

const (
	lone tag = 1 << (63 - iota)
	robust
	fixed

	tagToken = 1<<52 - 1
)

// robustMark is what TOKEN begins with while a lone ticket stands.
func (t tag) robustMark() string {
	if t&robust != 0 {
		return "!"
	}
	return "?"
}

// leftMark is what take.lua finds after a lone ticket, if that must be written.
func (t tag) leftMark(clean bool) string {
	mark := "="
	if !clean {
		mark = "!"
	} else if t&robust == 0 {
		return ""
	}
	return mark + strconv.FormatUint(uint64(t&tagToken), 10)
}

// Join takes the short way if it is probably open.
func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	q := s.queue(j.Queue)
	j.Hold = ceil(j.Hold)
	flags := "-"
	if j.Robust {
		flags = "o"
	}
	w := s.words(j.Session)
	rest := w.owner
	if len(j.Note) > 0 {
		rest += url.QueryEscape(string(j.Note))
	}
	number, capacity, hold := strconv.FormatUint(j.Number, 10), strconv.FormatInt(j.Capacity, 10), micros(j.Hold)
	if j.Units == j.Capacity && public(j.Kind) && !j.Retry && !q.busy.Load() {
		st, ok, err := s.joinLone(ctx, q, &j, flags, " "+number+" "+string(j.Kind)+" "+capacity+" "+w.ttl+" "+hold+rest)
		if ok || err != nil {
			return st, err
		}
		q.busy.Store(true)
	}
	if j.Hold > 0 {
		flags += "h"
	}
	c := call{joinScript, q.keys, []string{
		j.ID, string(j.Kind), strconv.FormatInt(j.Units, 10), capacity, w.ttl, hold, flags, w.session, number, rest,
		digit(j.NoWait), digit(j.Retry),
	}}
	for {
		sent := driver.Now()
		answer, err := s.runN(ctx, c, 6)
		if err != nil {
			return exchange.Status{}, err
		}
		if answer[0] == codeBusy && answer[1] != 0 { // dead ones were in front
			continue
		}
		return joined(q, &j, sent, answer)
	}
}

// ceil is a time of whole microseconds, not less than it was.
func ceil(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// public reports whether other programs may use the lock's key too.
func public(k driver.Kind) bool {
	return k == driver.Mutex || k == driver.RWMutex || k == driver.Election
}

// joined reads the answer of join.lua.
func joined(q *queue, j *exchange.Join, sent driver.Instant, answer []int64) (exchange.Status, error) {
	st := exchange.Status{Unsettled: answer[1] != 0, At: time.UnixMicro(answer[2]), Sent: sent}
	switch answer[0] {
	case codeBack:
		return st, q.back()
	case codeWaits:
		st.State = exchange.Waiting
		lookAfter(&st, answer[3])
	case codeHeld:
		st.State, st.Token, st.Inherited = exchange.Held, uint64(answer[3]), answer[4] != 0
		if left := answer[5]; left >= 0 { // nothing extends it
			st.Left = us(left)
			if st.Fixed = len(answer) > 6 && answer[6] == 1; st.Fixed {
				st.Hold = j.Hold
			}
			st.Evicted = !st.Fixed
		}
	}
	return st, codeError(answer[0])
}

// lookAfter reads what queue.lua says about when to look at a queue again for the sake of a waiter.
func lookAfter(st *exchange.Status, again int64) {
	st.Due, st.Blocked = max(us(again), 0), again == 0
}

// joinLone takes the short way, which only an exclusive lock has for which no other client
// waits. It reports false if that was not open.
func (s *store) joinLone(ctx context.Context, q *queue, j *exchange.Join, flags, rest string) (exchange.Status, bool, error) {
	w := s.words(j.Session)
	t, expires := lone, w.expires
	if j.Robust {
		t |= robust
	}
	if j.Hold > 0 {
		t, expires = t|fixed, millis(j.Hold)
	}
	token, err := s.run1(ctx, call{takeScript, q.take, []string{w.head(j.ID), flags, rest, expires, t.robustMark()}})
	if err != nil || token == 0 {
		return exchange.Status{}, false, err
	}
	st := exchange.Status{State: exchange.Held, Token: uint64(max(token, -token)), Inherited: token < 0, Fixed: j.Hold > 0, Left: j.Hold, Hold: j.Hold}
	st.Tag = uint64(t) | st.Token
	return st, true, nil
}

func (s *store) Leave(ctx context.Context, l exchange.Leave) (unsettled bool, err error) {
	q := s.queue(l.Queue)
	if t := tag(l.Tag); t&lone != 0 {
		ok, err := s.run1(ctx, call{dropScript, q.loneKeys(), []string{s.words(l.Session).head(l.ID), t.leftMark(l.Clean)}})
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

func (s *store) Ask(ctx context.Context, queue, id string, what driver.Demand) (unsettled bool, err error) {
	letter := map[driver.Demand]string{driver.Revoke: "r", driver.Evict: "e", driver.Force: "x"}[what]
	return s.change(ctx, askScript, queue, id, letter)
}

// Resize sets the number with the first script that meets no dead tickets of another kind, and looks at all
// waiters, some with each script.
func (s *store) Resize(ctx context.Context, queue string, capacity int64) (unsettled bool, err error) {
	keys := s.queue(queue).keys
	to, from := strconv.FormatInt(capacity, 10), int64(0)
	for {
		answer, err := s.runN(ctx, call{resizeScript, keys, []string{to, strconv.FormatInt(from, 10)}}, 3)
		switch {
		case err != nil:
			return false, err
		case answer[0] == codeMismatch && answer[1] != 0: // dead ones were in it
			continue
		}
		if to, from = "", answer[2]; from < 0 {
			return answer[1] != 0, codeError(answer[0])
		}
	}
}

func (s *store) Raise(ctx context.Context, queue string, floor uint64) error {
	unsettled, err := s.change(ctx, raiseScript, queue, strconv.FormatUint(floor, 10))
	s.settle(ctx, queue, unsettled)
	return err
}

// change runs a script that answers with a code, and whether there is more to do.
func (s *store) change(ctx context.Context, c *script, queue string, args ...string) (unsettled bool, err error) {
	answer, err := s.runN(ctx, call{c, s.queue(queue).keys, args}, 2)
	if err != nil {
		return false, err
	}
	return answer[1] != 0, codeError(answer[0])
}

// Settle runs the script of a heartbeat without tickets.
func (s *store) Settle(ctx context.Context, queue string) (unsettled bool, err error) {
	answer, err := s.runN(ctx, call{renewScript, s.queue(queue).keys, []string{"-", "0", "0"}}, 2)
	return err == nil && answer[0] != 0, err
}

// settle goes on with what one script may not do alone. If it fails, a heartbeat goes on.
func (s *store) settle(ctx context.Context, queue string, unsettled bool) {
	for err := error(nil); unsettled && err == nil; {
		unsettled, err = s.Settle(ctx, queue)
	}
}

// Clock is the time of the node whose clock is the furthest behind.
func (s *store) Clock(ctx context.Context) (micros int64, err error) {
	micros = math.MaxInt64
	for _, node := range s.client.Nodes() {
		s.exchanges.Add(1)
		at, err := node.Do(ctx, node.B().Time().Build()).AsIntSlice()
		if err == nil && len(at) != 2 {
			err = fmt.Errorf("TIME answers %d numbers", len(at))
		}
		if err != nil {
			return 0, s.noted(err)
		}
		micros = min(micros, at[0]*1_000_000+at[1])
	}
	return micros, nil
}
