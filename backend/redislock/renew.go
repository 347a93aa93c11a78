package redislock

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/redis/rueidis"
)

const (
	perScript   = 100 // tickets in one script, which bounds its time
	perPipeline = 500 // scripts in one exchange
)

// group is what Renew asks about one queue in one script: the first of the IDs are
// extended.
type group struct {
	s        *session
	q        *queue
	ids      []string
	extend   int
	doubtful map[string]bool // their Join may arrive later than the question
}

// Renew sends a script for each queue, all in a few pipelines.
func (s *session) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if s.d.client.Mode() != rueidis.ClientModeCluster {
		return s.renew(ctx, 0, known)
	}
	// A dead node must not keep the answers of the others back for so long that their
	// leases run out: there are two pipelines in a third of the TTL, and each may take so
	// long for its own. If all are late, they are asked again.
	for {
		answer, err := s.renew(ctx, s.ttl/8, known)
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return answer, err
		}
		if err := s.usable(ctx); err != nil {
			return nil, err
		}
	}
}

// renew asks about all once. No pipeline takes longer than the limit.
func (s *session) renew(ctx context.Context, limit time.Duration, known []driver.Ticket) ([]driver.Renewed, error) {
	lone, groups, err := s.groups(known)
	if err != nil {
		return nil, err
	}
	var answer []driver.Renewed
	var failed error
	tried, missed := len(lone)+len(groups), 0

	calls := make([]call, len(lone))
	for i, p := range lone {
		calls[i] = call{extendScript, p.q.loneKeys(), []string{s.head(p.id), millis(s.ttl), p.robustMark()}}
	}
	alone := len(groups) == 0
	if alone && tried > 0 {
		calls = append(calls, s.d.echo()...)
	}
	s.d.each(ctx, limit, calls, func(i int, got []int64, sent driver.Instant, err error) {
		if i == len(lone) {
			return // the echo
		}
		p := lone[i]
		switch {
		case err != nil:
			failed = err
			missed++
		case got[0] == 0:
			groups = append(groups, group{s: s, q: p.q, ids: []string{p.id}, extend: 1})
		default:
			s.d.mu.Lock()
			p.proof = max(p.proof, sent)
			s.d.mu.Unlock()
			answer = append(answer, driver.Renewed{ID: p.id, Queue: p.q.name, State: driver.Kept, Proof: sent})
		}
	})

	calls = make([]call, len(groups))
	for i, g := range groups {
		calls[i] = g.call()
	}
	if !alone {
		calls = append(calls, s.d.echo()...)
	}
	s.d.each(ctx, limit, calls, func(i int, got []int64, sent driver.Instant, err error) {
		if i == len(groups) {
			return // the echo
		}
		became, err := groups[i].seen(sent, got, err)
		if err != nil {
			failed = err
			missed++
		}
		answer = append(answer, became...)
	})
	if missed > 0 && missed == tried {
		return nil, failed // nothing could be reached
	}
	if err := s.renewalsReplicated(ctx, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// renewalsReplicated makes sure, if that is asked for, that a failover would not
// lose renewals: such a one proves nothing. In a Cluster it would take an exchange
// for each queue to know that.
func (s *session) renewalsReplicated(ctx context.Context, answer []driver.Renewed) error {
	if s.d.replicas == 0 || s.d.client.Mode() == rueidis.ClientModeCluster {
		return nil
	}
	for _, r := range answer {
		if r.State != driver.Kept {
			continue
		}
		if p := s.place(r.ID); p != nil && s.isHeld(p) {
			return s.d.replicated(ctx, p.q, p.id)
		}
	}
	return nil
}

// groups sorts what Renew has to ask: tickets that are probably still lone, and
// the others by their queues, with those of this session that are not named.
func (s *session) groups(known []driver.Ticket) (lone []*place, all []group, err error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	named := make(map[string]bool, len(known))
	extend, look := map[*queue][]string{}, map[*queue][]string{}
	doubtful := map[string]bool{}
	var order []*queue
	add := func(m map[*queue][]string, q *queue, id string) {
		if len(extend[q]) == 0 && len(look[q]) == 0 {
			order = append(order, q)
		}
		m[q] = append(m[q], id)
	}
	for _, t := range known {
		if named[t.ID] {
			continue
		}
		named[t.ID] = true
		if p := s.places[t.ID]; p != nil && p.q.name == t.Queue {
			if p.lone && p.state == held && !p.fixed {
				lone = append(lone, p)
			} else {
				add(extend, p.q, p.id)
			}
			continue
		}
		if err := driver.CheckID(t.ID); err != nil {
			return nil, nil, err
		}
		q, err := s.d.queue(t.Queue)
		if err != nil {
			return nil, nil, err
		}
		add(extend, q, t.ID)
	}
	now := s.d.Now()
	for id, p := range s.places {
		switch {
		case named[id]:
		case !p.fixed:
			add(look, p.q, id)
			doubtful[id] = p.state == unknown && now.Sub(p.joined) < 2*s.ttl
		case p.state == held && now.Sub(p.proof) > p.hold+2*s.ttl: // it ended by itself
			s.d.ended(p)
		}
	}
	for _, q := range order {
		ids := append(extend[q], look[q]...)
		for at := 0; at < len(ids); at += perScript {
			part := ids[at:min(at+perScript, len(ids))]
			all = append(all, group{s, q, part, min(max(len(extend[q])-at, 0), len(part)), doubtful})
		}
	}
	return lone, all, nil
}

// What renew.lua says of a ticket.
const (
	stateGone = iota
	stateWaits
	stateHeld
	stateFixed
	stateEvicted

	tellWanted   = 1
	tellInherits = 2
	tellRevoke   = 4
)

func (g group) call() call {
	return call{renewScript, g.q.keys, append([]string{g.s.id, g.s.ttlUS, strconv.Itoa(g.extend)}, g.ids...)}
}

// seen takes note of what renew.lua has answered.
func (g group) seen(sent driver.Instant, got []int64, err error) ([]driver.Renewed, error) {
	if err == nil && len(got) < 5*len(g.ids)+2 {
		err = errShort
	}
	if err != nil {
		return nil, err
	}
	s, q := g.s, g.q
	server := got[len(got)-1]
	if got[len(got)-2] != 0 {
		s.d.settle(q)
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	var answer []driver.Renewed
	for i, id := range g.ids {
		state, token, tell, again, hold := got[5*i], got[5*i+1], got[5*i+2], got[5*i+3], got[5*i+4]
		p := s.places[id]
		if p != nil && (p.q != q && p.q.name != q.name) {
			p = nil
		}
		r := driver.Renewed{ID: id, Queue: q.name}
		named := i < g.extend
		fixed := state == stateFixed || state == stateEvicted && again >= 0
		switch state {
		case stateGone:
			r.State = driver.Gone
			if p != nil && !g.doubtful[id] {
				s.d.ended(p)
			}
		case stateEvicted:
			r.State = driver.Evicted
		default:
			r.State, r.Proof = driver.Kept, sent
			if fixed {
				r.Proof = min(sent, sent.Add(time.Duration(again-hold)*time.Microsecond))
			}
		}
		if p != nil && state != stateGone {
			p.lone = false
			p.sent, p.server = sent, server
			switch {
			case fixed:
				p.fixed = true
				p.proof = min(sent, sent.Add(time.Duration(again)*time.Microsecond-p.hold))
				if state == stateFixed {
					r.Proof = p.proof
				}
			case state != stateEvicted && named:
				p.proof = max(p.proof, sent)
			}
			switch {
			case token > 0 && p.state != held:
				p.isHeld(uint64(token), tell&tellInherits != 0)
			case state == stateWaits && p.state != held: // else the news of its grant was faster
				p.state = waiting
				p.lookAfter(s.d.Now(), again)
			}
			if tell&tellWanted != 0 {
				p.signal(driver.Wanted)
			}
			if tell&tellRevoke != 0 {
				p.signal(driver.Revoke)
			}
			if state == stateEvicted {
				p.signal(driver.Evict)
			}
		}
		switch {
		case named:
			answer = append(answer, r)
		case state != stateGone && !fixed:
			answer = append(answer, driver.Renewed{ID: id, Queue: q.name, State: driver.Stray})
		}
	}
	return answer, nil
}

const repairTimeout = 5 * time.Second

// repair looks at every ticket that waits, after news may have been missed.
func (d *Driver) repair() {
	d.mu.Lock()
	open := map[*session]map[*queue]*group{}
	var all []*group
	for _, p := range d.places {
		if p.state == held || p.state == gone {
			continue
		}
		if open[p.s] == nil {
			open[p.s] = map[*queue]*group{}
		}
		g := open[p.s][p.q]
		if g == nil || len(g.ids) == perScript {
			g = &group{s: p.s, q: p.q, doubtful: map[string]bool{}}
			open[p.s][p.q] = g
			all = append(all, g)
		}
		g.ids = append(g.ids, p.id)
		g.doubtful[p.id] = p.state == unknown
	}
	d.mu.Unlock()
	d.topics.AllChanged()
	if len(all) == 0 {
		return
	}
	d.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, repairTimeout)
		defer cancel()
		calls := make([]call, len(all))
		for i, g := range all {
			calls[i] = g.call()
		}
		d.each(ctx, 0, calls, func(i int, got []int64, sent driver.Instant, err error) {
			_, _ = all[i].seen(sent, got, err) // else the next heartbeat asks
		})
	})
}
