package redislock

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// tag is what a status says of a lone ticket, which lone_join.lua has granted: its token, and these
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

// leftMark is what lone_join.lua finds after a lone ticket, if that must be written.
func (t tag) leftMark(clean bool) string {
	mark := "="
	if !clean {
		mark = "!"
	} else if t&robust == 0 {
		return ""
	}
	return mark + strconv.FormatUint(uint64(t&tagToken), 10)
}

func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, s, changes, answer)
}

// Join takes the short way if it is probably open.
func (s *store) Join(ctx context.Context, j exchange.Join) (exchange.Status, error) {
	q := s.queue(j.Queue)
	j.Hold = ceil(j.Hold)
	flags := "-"
	if j.ReportDeath {
		flags = "o"
	}
	w := s.words(j.Session)
	rest := w.owner
	if len(j.Note) > 0 {
		rest += url.QueryEscape(string(j.Note))
	}
	number, capacity, hold := strconv.FormatUint(j.Number, 10), strconv.FormatInt(j.Capacity, 10), micros(j.Hold)
	if j.Units == j.Capacity && public(j.Kind) && !j.Retry && !q.busy.Load() {
		st, ok, err := s.joinLone(ctx, q, &j, "interlock "+j.ID+" "+w.session+" "+flags+" "+number+" "+string(j.Kind)+" "+capacity+" "+w.ttl+" "+hold+rest)
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
	st := exchange.Status{Unsettled: answer[1] != 0, At: time.UnixMicro(answer[2]), Sent: sent, Found: len(answer) > 7 && answer[7] == 1}
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

// lookAfter reads what common.lua says about when to look at a queue again for the sake of a waiter.
func lookAfter(st *exchange.Status, again int64) {
	st.Due, st.Blocked = max(us(again), 0), again == 0
}

// joinLone takes the short way, which only an exclusive lock has for which no other client
// waits. It reports false if that was not open.
func (s *store) joinLone(ctx context.Context, q *queue, j *exchange.Join, text string) (exchange.Status, bool, error) {
	w := s.words(j.Session)
	t, expires := lone, w.expires
	if j.ReportDeath {
		t |= robust
	}
	if j.Hold > 0 {
		t, expires = t|fixed, millis(j.Hold)
	}
	token, err := s.run1(ctx, call{loneJoinScript, q.take, []string{text, expires, t.robustMark()}})
	if err != nil || token == 0 {
		return exchange.Status{}, false, err
	}
	st := exchange.Status{State: exchange.Held, Token: uint64(max(token, -token)), Inherited: token < 0, Fixed: j.Hold > 0, Left: j.Hold, Hold: j.Hold}
	st.Tag = uint64(t) | st.Token
	return st, true, nil
}
