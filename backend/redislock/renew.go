package redislock

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

const (
	perScript   = 100 // tickets in one script, which bounds its time
	perPipeline = 500 // scripts in one exchange
)

// Renew sends a script for each queue, all in a few pipelines.
func (s *store) Renew(ctx context.Context, o exchange.Session, tickets []exchange.Ref, extend int) (exchange.Renewal, error) {
	if s.client.Mode() != rueidis.ClientModeCluster {
		return s.renew(ctx, 0, o, tickets, extend)
	}
	// A dead node must not keep the answers of the others back for so long that their
	// leases run out: there are two pipelines in a third of the TTL, and each may take so
	// long for its own. If all are late, they are asked again.
	for {
		answer, err := s.renew(ctx, o.TTL/8, o, tickets, extend)
		late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) // the latter of a connection that was ended
		if ctx.Err() != nil || !late {
			return answer, err
		}
		if err := s.usable(ctx); err != nil {
			return exchange.Renewal{}, err
		}
	}
}

// renew asks about all once. No pipeline takes longer than the limit.
func (s *store) renew(ctx context.Context, limit time.Duration, o exchange.Session, tickets []exchange.Ref, extend int) (exchange.Renewal, error) {
	all := make([]exchange.Status, len(tickets))
	var lones, others []int // of the tickets, by their place
	for i, t := range tickets {
		all[i].State = exchange.NotAsked
		if t := tag(t.Tag); i < extend && t&lone != 0 && t&fixed == 0 {
			lones = append(lones, i)
		} else {
			others = append(others, i)
		}
	}
	w := s.words(o)
	calls := make([]call, len(lones))
	for k, i := range lones {
		t := tickets[i]
		calls[k] = call{loneRenewScript, s.queue(t.Queue).loneKeys(), []string{t.ID, w.session, w.expires, tag(t.Tag).robustMark()}}
	}
	alone := len(others) == 0
	if alone {
		calls = append(calls, s.echo()...)
	}
	var failed, silent error
	s.each(ctx, limit, calls, func(k int, got []int64, sent driver.Instant, err error) {
		switch {
		case k == len(lones): // the echo
			silent = err
		case err != nil:
			failed = err
		case got[0] == 0:
			others = append(others, lones[k])
		default:
			t := tickets[lones[k]].Tag
			all[lones[k]] = exchange.Status{State: exchange.Held, Token: t & tagToken, Tag: t, Sent: sent}
		}
	})
	if len(tickets) == 0 {
		if silent == nil && s.feed.lost() != nil { // who listens has no other exchange that tells of an outage
			_, silent = s.do(ctx, s.client.B().Ping().Build())
		}
		return exchange.Renewal{}, silent
	}
	groups := s.groups(o, tickets, others, extend)
	var echo []call
	if !alone {
		echo = s.echo()
	}
	failed = cmp.Or(s.ask(ctx, limit, groups, echo, all), failed)
	confirmed := s.replicas == 0 || s.client.Mode() == rueidis.ClientModeCluster // there it would take an exchange for each queue
	for i := range all {
		if all[i].State == exchange.NotAsked {
			continue
		}
		failed = nil
		if all[i].Stray = i >= extend && !all[i].Fixed; i < extend && all[i].State == exchange.Held && !all[i].Evicted && !confirmed {
			// A renewal that a failover would lose proves nothing.
			if err := s.replicated(ctx, o, s.queue(tickets[i].Queue), tickets[i].ID); err != nil {
				return exchange.Renewal{}, err
			}
			confirmed = true
		}
	}
	return exchange.Renewal{Tickets: all}, failed
}

// Look asks one script over the connection for calls, which is quicker.
func (s *store) Look(ctx context.Context, o exchange.Session, tickets []exchange.Ref) (all []exchange.Status, err error) {
	all = make([]exchange.Status, len(tickets))
	places := make([]int, len(tickets))
	for i := range all {
		all[i].State, places[i] = exchange.NotAsked, i
	}
	if groups := s.groups(o, tickets, places, 0); len(groups) == 1 {
		var got []int64
		sent := driver.Now()
		if got, err = s.runN(ctx, groups[0].call, 2); err == nil {
			err = groups[0].read(got, sent, all)
		}
	} else {
		err = s.ask(ctx, 0, groups, nil, all)
	}
	for i, st := range all {
		if st.State == exchange.Held && !st.Fixed && !st.Evicted && !st.Wanted && !st.Revoked {
			all[i].Tag = tickets[i].Tag // it is lone yet, if it was
		}
	}
	return all, err
}

// group is what one script is asked about one queue.
type group struct {
	call
	places []int // of its tickets
}

// groups are for the tickets that stand in these places, by their queues: the first of them, of those
// whose places are before extend, are to be extended.
func (s *store) groups(o exchange.Session, tickets []exchange.Ref, places []int, extend int) (all []group) {
	slices.SortFunc(places, func(a, b int) int {
		return cmp.Or(strings.Compare(tickets[a].Queue, tickets[b].Queue), cmp.Compare(a, b))
	})
	w := s.words(o)
	for len(places) > 0 {
		queue, extended := tickets[places[0]].Queue, 0
		args := []string{w.session, w.ttl, ""}
		for _, i := range places[:min(perScript, len(places))] {
			if tickets[i].Queue != queue {
				break
			}
			if i < extend {
				extended++
			}
			args = append(args, tickets[i].ID)
		}
		args[2] = strconv.Itoa(extended)
		all = append(all, group{call{renewScript, s.queue(queue).keys, args}, places[:len(args)-3]})
		places = places[len(args)-3:]
	}
	return all
}

// ask sends the groups, and one more call, in pipelines, and reads what they answer. It is an error if
// none does.
func (s *store) ask(ctx context.Context, limit time.Duration, groups []group, more []call, all []exchange.Status) (failed error) {
	calls := make([]call, len(groups), len(groups)+1)
	for i, g := range groups {
		calls[i] = g.call
	}
	missed := 0
	s.each(ctx, limit, append(calls, more...), func(i int, got []int64, sent driver.Instant, err error) {
		if i == len(groups) {
			return
		}
		if err == nil {
			err = groups[i].read(got, sent, all)
		}
		if err != nil {
			failed, missed = err, missed+1
		}
	})
	if missed < len(groups) {
		return nil
	}
	return failed
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

// read reads what renew.lua has answered.
func (g group) read(got []int64, sent driver.Instant, all []exchange.Status) error {
	if len(got) < 5*len(g.places)+2 {
		return errors.New("redis: the answer of a script is too short")
	}
	more, at := got[len(got)-2], time.UnixMicro(got[len(got)-1])
	for k, i := range g.places {
		state, token, tell, again, hold := got[5*k], got[5*k+1], got[5*k+2], got[5*k+3], got[5*k+4]
		st := exchange.Status{
			State: exchange.Held, Token: uint64(token), Inherited: tell&tellInherits != 0, Wanted: tell&tellWanted != 0, Revoked: tell&tellRevoke != 0,
			Evicted: state == stateEvicted, At: at, Sent: sent, Unsettled: k == 0 && more != 0,
		}
		switch {
		case state == stateGone:
			st.State = exchange.Gone
		case state == stateFixed, state == stateEvicted && again >= 0:
			st.Fixed, st.Left, st.Hold = true, us(again), us(hold)
		case state == stateWaits:
			st.State = exchange.Waiting
			lookAfter(&st, again)
		}
		all[i] = st
	}
	return nil
}
