package drivertest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

var errOpaque = errors.New("something went wrong")

// mutants are drivers that break a promise, each with rules that must notice.
var mutants = []struct {
	name  string
	bites string // names of rules
	m     mutant
}{
	{"grants two", "Exclusion ExclusionWithinASession PrefixOfTheQueue ReadersAndWriters RandomSteps Neighbours", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if err == nil && !tk.Held {
				tk.Held, tk.Token = true, 1<<30
			}
			return tk, err
		},
	}},
	{"Await returns early", "Exclusion Crowd Order ConcurrentLocks ConcurrentReadersAndWriters ConcurrentPermits ReadersAndWriters CrowdOfReaders", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			if got, ok := s.peek(t); ok {
				return got, nil
			}
			t.Held, t.Token, t.Proof = true, uint64(s.n.next()), s.d.Now()
			return t, nil
		},
	}},
	{"Await returns early, with larger and larger tokens", "Exclusion", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			t.Held, t.Token, t.Proof = true, uint64(s.n.next()), s.d.Now()
			return t, nil
		},
	}},
	{"a Join that was busy may yet arrive", "NoWait", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			if _, stands := s.peek(driver.Ticket{ID: r.ID, Queue: r.Queue}); r.NoWait && r.Retry && !stands {
				r.ID = newID()
			}
			return s.plainJoin(ctx, r)
		},
	}},
	{"one session is one holder", "ExclusionWithinASession", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if err == nil && !tk.Held && !s.n.once("holder "+s.id+r.Queue) {
				tk.Held, tk.Token = true, 1<<30
			}
			if tk.Held {
				s.n.once("holder " + s.id + r.Queue)
			}
			return tk, err
		},
	}},
	{"sums run over", "LargestCapacity", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			if r.Units > driver.MaxCapacity/2 {
				r.Units /= 4
			}
			return s.plainJoin(ctx, r)
		},
	}},
	{"weights do not count", "PrefixOfTheQueue ConcurrentPermits NoWaitKeepsOrder", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			if r.Capacity > 1 && r.Units < r.Capacity {
				r.Units = 1
			}
			return s.plainJoin(ctx, r)
		},
	}},
	{"a held ticket waits again", "HeldStaysHeld JoinIsIdempotent LostReplies", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if r.Retry {
				tk.Held, tk.Token = false, 0
			}
			return tk, err
		},
	}},
	{"the last two waiters change places", "Order Crowd", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if err == nil && !tk.Held && !r.Retry {
				key := s.id + r.Queue
				s.n.mu.Lock()
				last := s.n.last[key]
				s.n.last[key] = r.ID
				s.n.mu.Unlock()
				if _, held := s.peek(driver.Ticket{ID: last, Queue: r.Queue}); last != "" && !held {
					s.n.swap(last, r.ID)
				}
			}
			return tk, err
		},
	}},
	{"NoWait passes who waits", "NoBarging NoWaitKeepsOrder NoWait RandomSteps", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if r.NoWait && errors.Is(err, driver.ErrBusy) {
				return driver.Ticket{ID: r.ID, Queue: r.Queue, Held: true, Token: 1 << 40}, nil
			}
			return tk, err
		},
	}},
	{"NoWait waits", "NoWait NoWaitKeepsOrder RandomSteps LostCalls", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if r.NoWait && errors.Is(err, driver.ErrBusy) && !r.Retry {
				r.NoWait = false
				s.plainJoin(ctx, r)
			}
			return tk, err
		},
	}},
	{"who is refused has others refused", "MismatchOfALatecomer", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			s.n.mu.Lock()
			disputed := s.n.seen["disputed "+r.Queue]
			s.n.mu.Unlock()
			if disputed {
				return driver.Ticket{}, driver.ErrMismatch
			}
			tk, err := s.plainJoin(ctx, r)
			if errors.Is(err, driver.ErrMismatch) {
				s.n.once("disputed " + r.Queue)
			}
			return tk, err
		},
	}},
	{"a mismatch is not noticed", "Mismatch MismatchOfALatecomer RandomSteps", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if errors.Is(err, driver.ErrMismatch) {
				return driver.Ticket{ID: r.ID, Queue: r.Queue}, nil
			}
			return tk, err
		},
	}},
	{"Join forgets its ID", "JoinIsIdempotent LostReplies Cancellation NoWait RandomSteps HangingBackend", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			if r.Retry {
				s.n.rename(r.ID)
			}
			return s.plainJoin(ctx, r)
		},
	}},
	{"a repeated Join must find something", "LostCalls", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			if r.Retry && s.n.once("joined "+r.ID) {
				return driver.Ticket{}, driver.ErrGone
			}
			tk, err := s.plainJoin(ctx, r)
			s.n.once("joined " + r.ID)
			return tk, err
		},
	}},
	{"who has left may come again", "LeaveBeforeItsJoin LeftStaysLeft LeftWhileItsJoinIsRepeated RandomSteps", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if errors.Is(err, driver.ErrGone) {
				s.n.rename(r.ID)
				return s.plainJoin(ctx, r)
			}
			return tk, err
		},
	}},
	{"Leave always succeeds", "LeaveIsIdempotent Force RandomSteps", mutant{
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			return suite.Unless(s.Session.Leave(ctx, s.real(t), clean), driver.ErrGone)
		},
	}},
	{"Leave never succeeds", "Exclusion LostCalls", mutant{
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			return cmp.Or(s.Session.Leave(ctx, s.real(t), clean), driver.ErrGone)
		},
	}},
	{"Leave of what was renewed finds nothing", "RenewBesideALeave", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			for _, t := range known {
				s.n.once("renewed " + t.ID)
			}
			return s.plainRenew(ctx, known)
		},
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			err := s.Session.Leave(ctx, s.real(t), clean)
			if err == nil && !s.n.once("renewed "+t.ID) {
				return driver.ErrGone
			}
			return err
		},
	}},
	{"Leave takes its time", "LeaveGrantsTheNext RandomSteps SessionClose", mutant{
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			time.AfterFunc(time.Second, func() { s.Session.Leave(context.WithoutCancel(ctx), s.real(t), clean) })
			return nil
		},
		close: func(s *brokenSession, ctx context.Context) error {
			time.AfterFunc(time.Second, func() { s.Session.Close(context.WithoutCancel(ctx)) })
			return nil
		},
	}},
	{"anybody may leave anything", "LeaveOfAnotherSession", mutant{
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			s.n.mu.Lock()
			owner := s.n.owner[t.ID]
			s.n.mu.Unlock()
			if owner == nil {
				owner = s
			}
			return owner.Session.Leave(ctx, s.real(t), clean)
		},
	}},
	{"only the owner may leave and keep", "LeaveOfAnotherSession KeepByAnotherSession RandomSteps LostReplies", mutant{
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			if !s.owns(t) {
				return driver.ErrGone
			}
			return s.Session.Leave(ctx, s.real(t), clean)
		},
		keep: func(s *brokenSession, ctx context.Context, t driver.Ticket, d time.Duration) error {
			if !s.owns(t) {
				return driver.ErrGone
			}
			return s.Session.Keep(ctx, s.real(t), d)
		},
	}},
	{"Await misses the grant", "AwaitReturnsOnceHeld Order Crowd CrowdOfReaders", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			if got, ok := s.peek(t); ok && got.Held {
				return got, nil
			}
			<-ctx.Done()
			return driver.Ticket{}, ctx.Err()
		},
	}},
	{"Await misses the grant once in a while", "Crowd", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			if s.n.next()%10 != 0 {
				return s.plainAwait(ctx, t)
			}
			if got, ok := s.peek(t); ok && got.Held {
				return got, nil
			}
			<-ctx.Done()
			return driver.Ticket{}, ctx.Err()
		},
	}},
	{"Await leaves when its context ends", "AwaitDoesNotLeave CancelledAwaits", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			got, err := s.plainAwait(ctx, t)
			if ctx.Err() != nil && err != nil {
				s.Session.Leave(context.WithoutCancel(ctx), s.real(t), true)
			}
			return got, err
		},
	}},
	{"Await waits for who has gone", "AwaitOfAGoneTicket EvictionOfAWaitingTicket Force", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			got, err := s.plainAwait(ctx, t)
			if errors.Is(err, driver.ErrGone) {
				<-ctx.Done()
				return driver.Ticket{}, ctx.Err()
			}
			return got, err
		},
	}},
	{"Await polls", "IdleWaiters HandOverCost", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			done := make(chan struct{})
			defer close(done)
			go func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(100 * time.Millisecond):
						s.d.spend(1)
					}
				}
			}()
			return s.plainAwait(ctx, t)
		},
	}},
	{"everybody looks at every hand-over", "HandOverCost", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			waiting.Add(1)
			defer waiting.Add(-1)
			return s.plainAwait(ctx, t)
		},
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			s.d.spend(int(waiting.Load()))
			return s.Session.Leave(ctx, s.real(t), clean)
		},
	}},
	{"Join reads the whole queue", "BoundedExchanges", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			s.d.spend(s.n.next())
			return s.plainJoin(ctx, r)
		},
	}},
	{"Shrink goes to the end of the line", "Shrink", mutant{
		shrink: func(s *brokenSession, ctx context.Context, t driver.Ticket, units int64) error {
			q, err := s.d.Driver.Follow(ctx, t.Queue, "")
			if err != nil {
				return err
			}
			for _, m := range q.Members {
				if m.ID == s.n.real(t.ID) && !m.Held && units < m.Units && units > 0 {
					s.Session.Leave(ctx, s.real(t), true)
					_, err := s.Session.Join(ctx, driver.Request{ID: s.n.rename(t.ID), Queue: q.Name, Kind: q.Kind, Units: units, Capacity: q.Capacity})
					return err
				}
			}
			return s.Session.Shrink(ctx, s.real(t), units)
		},
	}},
	{"Shrink grants nobody", "Shrink LostReplies RandomSteps Follow", mutant{
		shrink: func(s *brokenSession, ctx context.Context, t driver.Ticket, units int64) error { return nil },
	}},
	{"Shrink minds to grow", "ShrinkNeverGrows RandomSteps", mutant{
		shrink: func(s *brokenSession, ctx context.Context, t driver.Ticket, units int64) error {
			q, err := s.d.Driver.Follow(ctx, t.Queue, "")
			if err != nil {
				return err
			}
			for _, m := range q.Members {
				if m.ID == s.n.real(t.ID) && units >= m.Units {
					return driver.ErrInvalid
				}
			}
			return s.Session.Shrink(ctx, s.real(t), units)
		},
	}},
	{"nothing expires", "ExpiryOfAHeldTicket ExpiryOfAWaitingTicket ExpiryOfManyInARow ExpiryOfAWaiterThatDoesNotFit SessionDeath RenewOnlyWhatIsKnown Proof Inherited CloseWithOpenSessions Follow", mutant{
		open: func(d *broken, ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
			asked := o.TTL
			o.TTL = 100 * limit
			s, err := d.session(ctx, o)
			if err != nil {
				return nil, err
			}
			s.TTL = asked
			return s, nil
		},
	}},
	{"all expires too early", "ExpiryOfAHeldTicket ExpiryOfAWaitingTicket Proof RenewExtends RenewOfAWaitingTicket EvictionOfAHeldTicket RenewOfAStray", mutant{
		open: func(d *broken, ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
			asked := o.TTL
			o.TTL = asked / 5
			s, err := d.session(ctx, o)
			if err != nil {
				return nil, err
			}
			s.TTL = asked
			return s, nil
		},
	}},
	{"proofs from the future", "Proof", mutant{join: joined(func(s *brokenSession, tk *driver.Ticket) { tk.Proof = tk.Proof.Add(time.Second) })}},
	{"an ID is looked for in any queue", "JoinInAnotherQueue", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			queue := r.Queue
			s.n.mu.Lock()
			if q := s.n.last["queue of "+r.ID]; q != "" {
				r.Queue = q
			}
			s.n.mu.Unlock()
			tk, err := s.plainJoin(ctx, r)
			if err == nil {
				s.n.mu.Lock()
				s.n.last["queue of "+r.ID] = r.Queue
				s.n.mu.Unlock()
				tk.Queue = queue
			}
			return tk, err
		},
	}},
	{"a repeated Join shrinks its ticket", "JoinStaysAsItWas", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if err == nil {
				s.Session.Shrink(ctx, s.real(tk), r.Units)
			}
			return tk, err
		},
	}},
	{"a repeated Join gives its ticket an end", "JoinStaysAsItWas", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if err == nil && r.Hold > 0 && tk.Held {
				s.Session.Keep(ctx, s.real(tk), r.Hold)
			}
			return tk, err
		},
	}},
	{"a Join without an answer is forgotten", "LostAnswers", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if err != nil && ctx.Err() != nil {
				s.n.rename(r.ID)
			}
			return tk, err
		},
	}},
	{"a short TTL is refused", "SessionTTL", mutant{
		open: func(d *broken, ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
			if o.TTL < time.Millisecond {
				return nil, driver.ErrInvalid
			}
			return d.session(ctx, o)
		},
	}},
	{"a session is closed as often as one likes", "SessionClose", mutant{
		close: func(s *brokenSession, ctx context.Context) error {
			return suite.Unless(s.Session.Close(ctx), driver.ErrSession)
		},
	}},
	{"a driver can be closed once", "CloseEndsCalls", mutant{
		shut: func(d *broken) error {
			if !d.n.once(fmt.Sprintf("closed %p", d)) {
				return errOpaque
			}
			return d.Driver.Close()
		},
	}},
	{"Keep says nothing of a ticket that waits", "KeepOfWhatCannotBeKept", mutant{
		keep: func(s *brokenSession, ctx context.Context, t driver.Ticket, d time.Duration) error {
			if _, held := s.peek(t); !held {
				return nil
			}
			return s.Session.Keep(ctx, s.real(t), d)
		},
	}},
	{"Keep of an evicted ticket is not refused", "KeepOfWhatCannotBeKept", mutant{
		keep: func(s *brokenSession, ctx context.Context, t driver.Ticket, d time.Duration) error {
			err := s.Session.Keep(ctx, s.real(t), d)
			if errors.Is(err, driver.ErrGone) && d > limit {
				return nil
			}
			return err
		},
	}},
	{"a renewal makes another state", "Follow", mutant{
		follow: func(d *broken, ctx context.Context, queue, after string) (driver.Queue, error) {
			before, ends, _ := strings.Cut(after, "/")
			q, err := d.plainFollow(ctx, queue, "")
			if now := endsOf(q); err == nil && q.Version == before && now == ends {
				q, err = d.plainFollow(ctx, queue, before)
			}
			q.Version += "/" + endsOf(q)
			return q, err
		},
	}},
	{"a fixed end is no state", "Follow", mutant{
		follow: func(d *broken, ctx context.Context, queue, after string) (driver.Queue, error) {
			real := ""
			for {
				q, err := d.plainFollow(ctx, queue, real)
				real = q.Version
				q.Version = "state"
				for _, m := range q.Members {
					q.Version += fmt.Sprint(m.ID, m.Units, m.Token)
				}
				if err != nil || q.Version != after {
					return q, err
				}
			}
		},
	}},
	{"signals before the answer are lost", "SignalsBeforeTheAnswer", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			q, e := s.d.plainFollow(context.WithoutCancel(ctx), r.Queue, "")
			if e == nil && len(q.Members) > 1 && q.Members[0].ID == r.ID {
				s.n.once("early " + r.ID)
			}
			return tk, err
		},
		signals: func(s *brokenSession, ctx context.Context) (driver.Signal, error) {
			for {
				g, err := s.Session.Signals(ctx)
				s.n.mu.Lock()
				early := s.n.seen["early "+g.ID]
				s.n.mu.Unlock()
				if err != nil || !early {
					return g, err
				}
			}
		},
	}},
	{"a proof is kept until it is three fifths of the TTL old", "RecentProofs", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			answer, err := s.plainRenew(ctx, known)
			s.n.mu.Lock()
			defer s.n.mu.Unlock()
			for i, r := range answer {
				last, err := strconv.ParseInt(s.n.last["proof of "+r.ID], 10, 64)
				if err == nil && r.Proof.Sub(driver.Instant(last)) < s.ttl*3/5 {
					answer[i].Proof = driver.Instant(last)
				} else {
					s.n.last["proof of "+r.ID] = strconv.FormatInt(int64(r.Proof), 10)
				}
			}
			return answer, err
		},
	}},
	{"a proof is old", "RecentProofs", mutant{renew: renewed(func(s *brokenSession, r *driver.Renewed) { r.Proof = r.Proof.Add(-s.ttl * 45 / 100) })}},
	{"Join proves from its answer", "LateAnswers", mutant{join: joined(func(s *brokenSession, tk *driver.Ticket) { tk.Proof = s.d.Now() })}},
	{"Renew proves from its answer", "LateAnswers", mutant{renew: renewed(func(s *brokenSession, r *driver.Renewed) { r.Proof = s.d.Now() })}},
	{"Await proves from the news", "LateAnswers", mutant{await: awaited(func(s *brokenSession, got *driver.Ticket) { got.Proof = s.d.Now() })}},
	{"a ticket that is being changed is not shown", "ATicketThatChangesIsShown", mutant{
		keep: func(s *brokenSession, ctx context.Context, t driver.Ticket, d time.Duration) error {
			s.n.changing.Store(true)
			defer s.n.changing.Store(false)
			time.Sleep(time.Millisecond)
			return s.Session.Keep(ctx, t, d)
		},
		follow: followed(func(d *broken, q *driver.Queue) {
			if d.n.changing.Load() {
				q.Members = nil
			}
		}),
	}},
	{"a snapshot is as young as its answer", "LateAnswers", mutant{follow: followed(func(d *broken, q *driver.Queue) { q.Read = d.Now() })}},
	{"Renew does nothing", "RenewExtends RenewOfAWaitingTicket RenewOfAStray RenewSaysWhatBecame EvictionOfAHeldTicket", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) (answer []driver.Renewed, _ error) {
			for _, t := range known {
				answer = append(answer, driver.Renewed{ID: t.ID, Queue: t.Queue, State: driver.Kept, Proof: s.d.Now()})
			}
			return answer, nil
		},
	}},
	{"Renew extends all", "RenewOnlyWhatIsKnown NothingIsProlonged", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			answer, err := s.plainRenew(ctx, known)
			for _, r := range answer {
				if r.State == driver.Stray {
					known = append(known, driver.Ticket{ID: r.ID, Queue: r.Queue})
				}
			}
			s.plainRenew(ctx, known)
			return answer, err
		},
	}},
	{"Renew revives what has ended", "WhatHasEndedIsNotRenewed RenewSaysWhatBecame", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			answer, err := s.Session.Renew(ctx, known)
			if errors.Is(err, driver.ErrSession) {
				answer = nil
				for _, t := range known {
					answer = append(answer, driver.Renewed{ID: t.ID, Queue: t.Queue, State: driver.Gone})
				}
				err = nil
			}
			for i := range answer {
				if r := &answer[i]; r.State == driver.Gone {
					r.State, r.Proof = driver.Kept, s.d.Now()
				}
			}
			return answer, err
		},
	}},
	{"Renew hides strays", "RenewOnlyWhatIsKnown RenewOfAStray RandomSteps", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) (rest []driver.Renewed, err error) {
			answer, err := s.plainRenew(ctx, known)
			for _, r := range answer {
				if r.State != driver.Stray {
					rest = append(rest, r)
				}
			}
			return rest, err
		},
	}},
	{"once a stray, always a stray", "RenewOfAStray StrayWithAnotherEnd", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			var rest []driver.Ticket
			s.n.mu.Lock()
			for _, t := range known {
				if !s.n.seen["stray "+t.ID] {
					rest = append(rest, t)
				}
			}
			s.n.mu.Unlock()
			answer, err := s.plainRenew(ctx, rest)
			for _, r := range answer {
				if r.State == driver.Stray {
					s.n.once("stray " + r.ID)
				}
			}
			return answer, err
		},
	}},
	{"Renew hides who has gone", "RenewSaysWhatBecame HoldEndsByItself Force RandomSteps", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) (rest []driver.Renewed, err error) {
			answer, err := s.plainRenew(ctx, known)
			for _, r := range answer {
				if r.State != driver.Gone {
					rest = append(rest, r)
				}
			}
			return rest, err
		},
	}},
	{"a fixed end is proven again by each Renew", "RenewOfFixedTickets", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			now := s.d.Now().Add(time.Nanosecond)
			answer, err := s.plainRenew(ctx, known)
			for i := range answer {
				answer[i].Proof = now
			}
			return answer, err
		},
	}},
	{"a fixed end is proven again by each Renew of another session", "RenewOfFixedTickets", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			now := s.d.Now().Add(time.Nanosecond)
			answer, err := s.plainRenew(ctx, known)
			for i, r := range answer {
				if r.State == driver.Kept && !s.owns(driver.Ticket{ID: r.ID, Queue: r.Queue}) {
					answer[i].Proof = now
				}
			}
			return answer, err
		},
	}},
	{"a fixed end is proven again by each Join", "RenewOfFixedTickets", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			now := s.d.Now().Add(time.Nanosecond)
			tk, err := s.plainJoin(ctx, r)
			if tk.Held && r.Retry {
				tk.Proof = now
			}
			return tk, err
		},
	}},
	{"a reader that is alone clears what a writer has left", "InheritedAmongReaders", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if q, _ := s.d.plainFollow(ctx, r.Queue, ""); len(q.Members) == 1 && r.Units == 1 {
				s.n.once("read " + r.Queue)
			} else if len(q.Members) == 1 && !s.n.once("read "+r.Queue) {
				tk.Inherited = false
			}
			return tk, err
		},
	}},
	{"Renew knows only its own tickets", "RenewOfFixedTickets", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			var own []driver.Ticket
			for _, t := range known {
				if s.owns(t) {
					own = append(own, t)
				}
			}
			return s.plainRenew(ctx, own)
		},
	}},
	{"anybody may renew anything", "RenewByAnotherSession", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			for _, t := range known {
				s.n.mu.Lock()
				owner := s.n.owner[t.ID]
				s.n.mu.Unlock()
				if owner != nil && owner != s {
					owner.plainRenew(ctx, []driver.Ticket{t})
				}
			}
			return s.plainRenew(ctx, known)
		},
	}},
	{"who waits looks again and again at those in front that have died", "DeadInFront", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
					q, _ := s.d.plainFollow(ctx, t.Queue, "")
					for _, m := range q.Members {
						s.n.mu.Lock()
						if owner := s.n.owner[m.ID]; s.n.seen[fmt.Sprintf("closed %p", owner.d)] {
							s.d.spend(1)
						}
						s.n.mu.Unlock()
					}
				}
			}()
			return s.plainAwait(ctx, t)
		},
		shut: func(d *broken) error {
			d.n.once(fmt.Sprintf("closed %p", d))
			return d.Driver.Close()
		},
	}},
	{"Renew goes through the tickets one by one", "RenewInAFewExchanges IdleWaiters", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			s.d.spend(len(known))
			return s.plainRenew(ctx, known)
		},
	}},
	{"Renew says ErrGone when the session is over", "SessionClose SessionDeath", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			answer, err := s.plainRenew(ctx, known)
			if errors.Is(err, driver.ErrSession) {
				return nil, errOpaque
			}
			for _, r := range answer {
				if r.State == driver.Gone {
					return nil, errOpaque
				}
			}
			return answer, err
		},
	}},
	{"Hold is forgotten", "HoldEndsByItself HoldOutlivesItsSession SessionClose Snapshots LeftStaysLeft", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			r.Hold = 0
			return s.plainJoin(ctx, r)
		},
	}},
	{"Hold begins with the Join", "HoldBeginsWithTheGrant", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			begin := s.d.Now()
			got, err := s.plainAwait(ctx, t)
			if waited := s.d.Now().Sub(begin); err == nil && s.n.once("hold "+t.ID) {
				if q, _ := s.d.Driver.Follow(ctx, t.Queue, ""); q.Members[0].Fixed {
					s.Session.Keep(ctx, t, q.Members[0].Left-max(waited, 4*time.Second))
				}
			}
			return got, err
		},
	}},
	{"whoever waits has no Hold", "HoldBeginsWithTheGrant", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			if q, err := s.d.plainFollow(ctx, r.Queue, ""); err == nil && len(q.Members) > 0 && !r.Retry {
				r.Hold = 0
			}
			return s.plainJoin(ctx, r)
		},
	}},
	{"a Hold that has run out has ended cleanly", "Inherited", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			hold := r.Hold
			if q, err := s.d.plainFollow(ctx, r.Queue, ""); hold <= 0 || err != nil || len(q.Members) > 0 {
				return s.plainJoin(ctx, r)
			}
			r.Hold = 0
			tk, err := s.plainJoin(ctx, r)
			if err == nil {
				err = s.Session.Keep(ctx, s.real(tk), hold)
			}
			return tk, err
		},
	}},
	{"Keep does nothing", "Keep KeepByAnotherSession LeaveOfAnotherSession", mutant{
		keep: func(s *brokenSession, ctx context.Context, t driver.Ticket, d time.Duration) error { return nil },
	}},
	{"Keep only prolongs", "Keep KeepByAnotherSession", mutant{
		keep: func(s *brokenSession, ctx context.Context, t driver.Ticket, d time.Duration) error {
			return s.Session.Keep(ctx, t, max(d, 5*limit))
		},
	}},
	{"nobody is wanted", "Wanted WantedReaders", mutant{
		signals: func(s *brokenSession, ctx context.Context) (driver.Signal, error) {
			for {
				if g, err := s.Session.Signals(ctx); err != nil || g.Demand != driver.Wanted {
					return g, err
				}
			}
		},
	}},
	{"only the first is wanted", "WantedReaders", mutant{
		signals: func(s *brokenSession, ctx context.Context) (driver.Signal, error) {
			for {
				g, err := s.Session.Signals(ctx)
				if err != nil || g.Demand != driver.Wanted || s.n.once("wanted "+g.Queue) {
					return g, err
				}
			}
		},
	}},
	{"everybody is always wanted", "Wanted", mutant{
		signals: func(s *brokenSession, ctx context.Context) (driver.Signal, error) {
			s.n.mu.Lock()
			defer s.n.mu.Unlock()
			for id, owner := range s.n.owner {
				if owner == s && ctx.Err() == nil {
					return driver.Signal{Demand: driver.Wanted, Queue: "q", ID: id}, nil
				}
			}
			return driver.Signal{}, ctx.Err()
		},
	}},
	{"Ask is not delivered", "Ask", mutant{
		signals: func(s *brokenSession, ctx context.Context) (driver.Signal, error) {
			for {
				if g, err := s.Session.Signals(ctx); err != nil || g.Demand == driver.Wanted {
					return g, err
				}
			}
		},
	}},
	{"what is taken away is told by the next Renew only", "DemandIsTold", mutant{
		signals: func(s *brokenSession, ctx context.Context) (driver.Signal, error) {
			for {
				g, err := s.Session.Signals(ctx)
				if err != nil || g.Demand != driver.Evict {
					return g, err
				}
				if q, err := s.d.plainFollow(ctx, g.Queue, ""); err == nil && len(q.Members) > 0 {
					return g, nil // it still stands
				}
			}
		},
	}},
	{"Ask does not say who has gone", "Ask", mutant{
		ask: func(d *broken, ctx context.Context, queue, id string, what driver.Demand) error {
			return suite.Unless(d.Driver.Ask(ctx, queue, id, what), driver.ErrGone)
		},
	}},
	{"Ask refuses the ID of another library", "Ask", mutant{
		ask: func(d *broken, ctx context.Context, queue, id string, what driver.Demand) error {
			if err := driver.CheckID(id); err != nil {
				return err
			}
			return d.Driver.Ask(ctx, queue, id, what)
		},
	}},
	{"Force asks politely", "Force RandomSteps LeftStaysLeft", mutant{ask: asked(driver.Force, driver.Revoke)}},
	{"Evict takes away at once", "EvictionOfAHeldTicket EvictionOfAFixedTicket Ask RandomSteps", mutant{ask: asked(driver.Evict, driver.Force)}},
	{"Evict shortens a fixed time", "EvictionOfAFixedTicket", mutant{
		ask: func(d *broken, ctx context.Context, queue, id string, what driver.Demand) error {
			err := d.Driver.Ask(ctx, queue, id, what)
			if s, failed := d.Driver.Open(ctx, driver.SessionOptions{TTL: time.Minute}); err == nil && failed == nil && what == driver.Evict {
				_ = s.Keep(ctx, driver.Ticket{ID: id, Queue: queue}, time.Millisecond)
				_ = s.Close(ctx)
			}
			return err
		},
	}},
	{"Evict does nothing", "EvictionOfAHeldTicket EvictionOfAWaitingTicket RandomSteps", mutant{ask: asked(driver.Evict, driver.Revoke)}},
	{"one token for all", "TokensOfExclusiveGrants TokensOfWriters TokensOverRestart Raise ConcurrentLocks", mutant{
		join:  joined(seven),
		await: awaited(seven),
	}},
	{"tokens change while they are held", "TokenStays JoinIsIdempotent", mutant{await: awaited(func(s *brokenSession, got *driver.Ticket) { got.Token += uint64(s.n.next()) })}},
	{"inspection shows other tokens", "TokenIsShown", mutant{
		follow: followed(func(d *broken, q *driver.Queue) {
			for i := range q.Members {
				q.Members[i].Token++
			}
		}),
	}},
	{"Resize does nothing", "Resize ResizeIsKept", mutant{
		resize: func(d *broken, ctx context.Context, queue string, capacity int64) error { return nil },
	}},
	{"Resize is forgotten", "ResizeIsKept", mutant{
		resize: func(d *broken, ctx context.Context, queue string, capacity int64) error {
			return errors.Join(d.Driver.Resize(ctx, queue, capacity), d.Driver.Resize(ctx, queue, 0))
		},
	}},
	{"Resize cannot be undone", "ResizeIsKept", mutant{
		resize: func(d *broken, ctx context.Context, queue string, capacity int64) error {
			if capacity == 0 {
				return nil
			}
			return d.Driver.Resize(ctx, queue, capacity)
		},
	}},
	{"Resize takes away what is held", "Resize", mutant{
		resize: func(d *broken, ctx context.Context, queue string, capacity int64) error {
			q, err := d.Driver.Follow(ctx, queue, "")
			for _, m := range q.Members {
				if capacity -= m.Units; m.Held && capacity < 0 {
					err = errors.Join(err, d.Driver.Ask(ctx, queue, m.ID, driver.Force))
				}
			}
			return err
		},
	}},
	{"Raise is forgotten", "Raise LostReplies", mutant{
		raise: func(d *broken, ctx context.Context, queue string, floor uint64) error { return nil },
	}},
	{"nobody inherits", "Inherited InheritedAmongReaders InheritedIsRepeated SessionClose CloseWithOpenSessions", mutant{
		join:  joined(heir(false)),
		await: awaited(heir(false)),
	}},
	{"everybody inherits", "Inherited InheritedAmongReaders KeptTicketsEndCleanly", mutant{
		join:  joined(heir(true)),
		await: awaited(heir(true)),
	}},
	{"Inherited is told once", "InheritedIsRepeated", mutant{await: awaited(func(s *brokenSession, got *driver.Ticket) { got.Inherited = got.Inherited && s.n.once("heir "+got.ID) })}},
	{"sessions of one name", "SessionIDs", mutant{
		id: func(*broken) string { return "session" },
	}},
	{"a closed session keeps its tickets", "SessionClose CloseBesideAnEviction RandomSteps LostReplies", mutant{
		close: func(s *brokenSession, ctx context.Context) error { return nil },
	}},
	{"a closed session drops its fixed tickets", "SessionClose HoldOutlivesItsSession RandomSteps KeepByAnotherSession Keep", mutant{
		close: func(s *brokenSession, ctx context.Context) error {
			s.n.mu.Lock()
			var own []string
			for id, owner := range s.n.owner {
				if owner == s {
					own = append(own, id)
				}
			}
			s.n.mu.Unlock()
			for q := range s.d.Driver.Queues(ctx, "") {
				for _, id := range own {
					s.d.Driver.Ask(ctx, q.Name, id, driver.Force)
				}
			}
			return s.Session.Close(ctx)
		},
	}},
	{"a closed driver works on", "CloseEndsCalls", mutant{
		shut: func(d *broken) error { return nil },
	}},
	{"a session leaves a goroutine behind", "NoLeftovers", mutant{
		open: func(d *broken, ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
			go time.Sleep(100 * limit)
			return d.session(ctx, o)
		},
	}},
	{"the last writer wins", "SwapComparesVersions DeletedCells CellContention ConcurrentCells", mutant{
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			for {
				c, err := d.Driver.Swap(ctx, s)
				if !errors.Is(err, driver.ErrConflict) {
					return c, err
				}
				now, err := d.Driver.Load(ctx, s.Name)
				if err != nil {
					return c, err
				}
				s.ID, s.Version = newID(), now.Version
			}
		},
	}},
	{"a deleted cell never was", "DeletedCells ConcurrentCells Watch", mutant{
		load: loaded(func(c *driver.Cell) {
			if !c.Exists {
				*c = driver.Cell{}
			}
		}),
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			if s.Version == 0 {
				if c, err := d.Driver.Load(ctx, s.Name); err == nil && !c.Exists {
					s.Version = c.Version
				}
			}
			c, err := d.Driver.Swap(ctx, s)
			if s.Delete {
				c.Version = 1
			}
			return c, err
		},
	}},
	{"Swap forgets its ID", "SwapIsIdempotent LostReplies ConcurrentCells", mutant{
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			s.ID = newID()
			return d.Driver.Swap(ctx, s)
		},
	}},
	{"a repeated Swap returns what is there now", "SwapIsIdempotent", mutant{
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			c, err := d.Driver.Swap(ctx, s)
			if err == nil && !d.n.once("swap "+s.ID) {
				return d.Driver.Load(ctx, s.Name)
			}
			return c, err
		},
	}},
	{"a repeated Swap was not refused", "SwapIsIdempotent", mutant{
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			c, err := d.Driver.Swap(ctx, s)
			if errors.Is(err, driver.ErrConflict) && !d.n.once("swap "+s.ID) {
				return d.Driver.Load(ctx, s.Name)
			}
			return c, err
		},
	}},
	{"names of cells are no longer than others", "LongNamesOfCells", mutant{
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			if err := driver.CheckName(s.Name); err != nil {
				return driver.Cell{}, err
			}
			return d.Driver.Swap(ctx, s)
		},
	}},
	{"large values are cut", "CellSize", mutant{
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			if len(s.Value) > 60000 {
				s.Value = s.Value[:60000]
			}
			return d.Driver.Swap(ctx, s)
		},
	}},
	{"Watch sees nothing that comes later", "Watch WatchNeverMissesTheLast", mutant{
		watch: func(d *broken, ctx context.Context, name string, after uint64) (driver.Cell, error) {
			if c, err := d.Driver.Load(ctx, name); err != nil || c.Version != after {
				return c, err
			}
			<-ctx.Done()
			return driver.Cell{}, ctx.Err()
		},
	}},
	{"Watch looks, then listens", "WatchNeverMissesTheLast", mutant{
		watch: func(d *broken, ctx context.Context, name string, after uint64) (driver.Cell, error) {
			c, err := d.Driver.Load(ctx, name)
			if err != nil || c.Version != after {
				return c, err
			}
			time.Sleep(5 * time.Millisecond)
			c, err = d.Driver.Load(ctx, name) // what came between is lost
			if err != nil {
				return c, err
			}
			return d.Driver.Watch(ctx, name, c.Version)
		},
	}},
	{"the end of a context ends a Watch beside it", "WaitsGoOn", mutant{
		load: func(d *broken, ctx context.Context, name string) (driver.Cell, error) {
			c, err := d.Driver.Load(ctx, name)
			if err != nil {
				d.n.once("connection lost")
			}
			return c, err
		},
		watch: func(d *broken, ctx context.Context, name string, after uint64) (driver.Cell, error) {
			for {
				look, cancel := context.WithTimeout(ctx, time.Millisecond)
				c, err := d.Driver.Watch(look, name, after)
				cancel()
				if err == nil || ctx.Err() != nil {
					return c, err
				}
				d.n.mu.Lock()
				lost := d.n.seen["connection lost"]
				d.n.mu.Unlock()
				if lost {
					return driver.Cell{}, errOpaque
				}
			}
		},
	}},
	{"Watch returns at once", "Watch", mutant{
		watch: func(d *broken, ctx context.Context, name string, after uint64) (driver.Cell, error) {
			return d.Driver.Load(ctx, name)
		},
	}},
	{"Follow sees nothing that comes later", "Follow FollowNeverMissesTheLast", mutant{
		follow: func(d *broken, ctx context.Context, queue, after string) (driver.Queue, error) {
			if q, err := d.plainFollow(ctx, queue, ""); err != nil || q.Version != after {
				return q, err
			}
			<-ctx.Done()
			return driver.Queue{}, ctx.Err()
		},
	}},
	{"Follow and Watch only look now and then", "FollowIsTold WatchIsTold", mutant{
		follow: func(d *broken, ctx context.Context, queue, after string) (driver.Queue, error) {
			for {
				q, err := d.plainFollow(ctx, queue, "")
				if err != nil || q.Version != after {
					return q, err
				}
				if err := sleep(ctx, 15*time.Second); err != nil {
					return driver.Queue{}, err
				}
			}
		},
		watch: func(d *broken, ctx context.Context, name string, after uint64) (driver.Cell, error) {
			for {
				c, err := d.Driver.Load(ctx, name)
				if err != nil || c.Version != after {
					return c, err
				}
				if err := sleep(ctx, 15*time.Second); err != nil {
					return driver.Cell{}, err
				}
			}
		},
	}},
	{"snapshots tell nothing", "Snapshots", mutant{
		follow: followed(func(d *broken, q *driver.Queue) {
			for i := range q.Members {
				q.Members[i].Note, q.Members[i].Owner = nil, ""
			}
		}),
	}},
	{"Queues in no order", "Queues ManyQueues Names", mutant{
		queues: func(d *broken, ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
			return func(yield func(driver.Queue, error) bool) {
				var all []driver.Queue
				for q, err := range d.Driver.Queues(ctx, prefix) {
					if err != nil {
						yield(q, err)
						return
					}
					all = append([]driver.Queue{q}, all...)
				}
				for _, q := range all {
					if !yield(q, nil) {
						return
					}
				}
			}
		},
	}},
	{"Queues of any case", "Queues", mutant{
		queues: func(d *broken, ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
			return func(yield func(driver.Queue, error) bool) {
				for q, err := range d.Driver.Queues(ctx, "") {
					if strings.HasPrefix(strings.ToLower(q.Name), strings.ToLower(prefix)) && !yield(q, err) {
						return
					}
				}
			}
		},
	}},
	{"Queues gives up after a page", "ManyQueues", mutant{
		queues: func(d *broken, ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
			return func(yield func(driver.Queue, error) bool) {
				n := 0
				for q, err := range d.Driver.Queues(ctx, prefix) {
					if n++; n > 250 || !yield(q, err) {
						return
					}
				}
			}
		},
	}},
	{"Cells of any case", "Cells", mutant{
		cells: func(d *broken, ctx context.Context, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for name, err := range d.Driver.Cells(ctx, "") {
					if strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix)) && !yield(name, err) {
						return
					}
				}
			}
		},
	}},
	{"Cells lists what was deleted", "Cells", mutant{
		cells: func(d *broken, ctx context.Context, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				var names []string
				for name := range d.Driver.Cells(ctx, prefix) {
					names = append(names, name)
				}
				for _, name := range d.n.deleted() {
					if strings.HasPrefix(name, prefix) {
						names = append(names, name)
					}
				}
				slices.Sort(names)
				for _, name := range slices.Compact(names) {
					if !yield(name, nil) {
						return
					}
				}
			}
		},
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			if s.Delete {
				d.n.once("deleted " + s.Name)
			}
			return d.Driver.Swap(ctx, s)
		},
	}},
	{"Cells in another order", "Cells ManyCells", mutant{
		cells: func(d *broken, ctx context.Context, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				var names []string
				for name := range d.Driver.Cells(ctx, prefix) {
					names = append(names, name)
				}
				for i := range names {
					if !yield(names[len(names)-1-i], nil) {
						return
					}
				}
			}
		},
	}},
	{"Cells gives up after a page", "ManyCells", mutant{
		cells: func(d *broken, ctx context.Context, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				n := 0
				for name, err := range d.Driver.Cells(ctx, prefix) {
					if n++; n > 200 || !yield(name, err) {
						return
					}
				}
			}
		},
	}},
	{"names of any case", "Names NamesOfCells", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			queue := r.Queue
			r.Queue = strings.ToLower(r.Queue)
			tk, err := s.plainJoin(ctx, r)
			tk.Queue = queue
			return tk, err
		},
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			s.Name = strings.ToLower(s.Name)
			return d.Driver.Swap(ctx, s)
		},
	}},
	{"names without their end", "Neighbours", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			queue := r.Queue
			r.Queue, _, _ = strings.Cut(r.Queue, "/")
			tk, err := s.plainJoin(ctx, r)
			tk.Queue = queue
			return tk, err
		},
	}},
	{"cells are queues", "NamesOfCells", mutant{
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			if o, err := d.Driver.Open(ctx, driver.SessionOptions{TTL: limit}); err == nil {
				o.Join(ctx, driver.Request{ID: newID(), Queue: s.Name, Kind: driver.Mutex, Units: 1, Capacity: 1})
			}
			return d.Driver.Swap(ctx, s)
		},
	}},
	{"cancellation without a reason", "EndedContext Cancellation HangingBackend AwaitDoesNotLeave", mutant{
		join: func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
			tk, err := s.plainJoin(ctx, r)
			if err != nil && ctx.Err() != nil {
				err = errOpaque
			}
			return tk, err
		},
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			got, err := s.plainAwait(ctx, t)
			if err != nil && ctx.Err() != nil {
				err = errOpaque
			}
			return got, err
		},
	}},
	{"a call waits for the one before it", "HangingBackend", mutant{
		load: func() func(d *broken, ctx context.Context, name string) (driver.Cell, error) {
			var all sync.Map // by driver
			return func(d *broken, ctx context.Context, name string) (driver.Cell, error) {
				turn, _ := all.LoadOrStore(d, make(chan struct{}, 1))
				turn.(chan struct{}) <- struct{}{}
				defer func() { <-turn.(chan struct{}) }()
				return d.Driver.Load(ctx, name)
			}
		}(),
	}},
	{"calls do not mind the context", "EndedContext", mutant{
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			return s.Session.Leave(context.WithoutCancel(ctx), s.real(t), clean)
		},
	}},
	{"a backend that is not there is open", "UnreachableBackend", mutant{
		world: func(w *World) { w.Unreachable = func(context.Context) error { return nil } },
	}},
	{"Await believes a stranger", "Stranger", mutant{
		world: credulous,
	}},
	{"Renew repairs nothing", "LostMessages", mutant{
		world: func(w *World) { unheard(w, false) },
	}},
	{"lives in another file", "", mutant{
		liveness: func() []*os.File { return []*os.File{os.Stderr} },
	}},
	{"Await forgets the queue", "AwaitReturnsOnceHeld Exclusion", mutant{await: awaited(func(s *brokenSession, got *driver.Ticket) { got.Queue = "" })}},
	{"Await tells no token", "Exclusion", mutant{await: awaited(func(s *brokenSession, got *driver.Ticket) { got.Token = 0 })}},
	{"Await returns what waits", "Exclusion", mutant{await: awaited(func(s *brokenSession, got *driver.Ticket) { got.Held = false })}},
	{"Renew answers twice", "RenewSaysWhatBecame RenewInAFewExchanges", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			answer, err := s.plainRenew(ctx, known)
			answer = append(answer, answer...)
			return answer, err
		},
	}},
	{"Renew forgets the queue", "RenewSaysWhatBecame", mutant{renew: renewed(func(s *brokenSession, r *driver.Renewed) { r.Queue = "" })}},
	{"whoever is evicted is kept", "EvictionOfAHeldTicket RenewSaysWhatBecame RenewOfFixedTickets RandomSteps", mutant{
		renew: renewed(func(s *brokenSession, r *driver.Renewed) {
			if r.State == driver.Evicted {
				r.State = driver.Kept
			}
		}),
	}},
	{"whoever waits has gone", "RenewSaysWhatBecame RenewOfAWaitingTicket RandomSteps LostCalls", mutant{
		renew: renewed(func(s *brokenSession, r *driver.Renewed) {
			if _, held := s.peek(driver.Ticket{ID: r.ID, Queue: r.Queue}); !held && r.State == driver.Kept {
				r.State = driver.Gone
			}
		}),
	}},
	{"a fixed end is a stray", "RenewOfFixedTickets RenewSaysWhatBecame RandomSteps", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			answer, err := s.plainRenew(ctx, known)
			for q := range s.d.Driver.Queues(ctx, "") {
				for _, m := range q.Members {
					named := slices.ContainsFunc(known, func(t driver.Ticket) bool { return t.ID == m.ID })
					if m.Fixed && !named && s.owns(driver.Ticket{ID: m.ID}) {
						answer = append(answer, driver.Renewed{ID: m.ID, Queue: q.Name, State: driver.Stray})
					}
				}
			}
			return answer, err
		},
	}},
	{"Renew tells of strangers", "RenewSaysWhatBecame RandomSteps", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			answer, err := s.plainRenew(ctx, known)
			for q := range s.d.Driver.Queues(ctx, "") {
				for _, m := range q.Members {
					if !s.owns(driver.Ticket{ID: m.ID}) && !m.Fixed {
						answer = append(answer, driver.Renewed{ID: m.ID, Queue: q.Name, State: driver.Stray})
					}
				}
			}
			return answer, err
		},
	}},
	{"Renew of nothing does nothing", "RenewOfAStray", mutant{
		renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
			if len(known) == 0 {
				return nil, nil
			}
			return s.plainRenew(ctx, known)
		},
	}},
	{"whoever leaves leaves cleanly", "Inherited InheritedAmongReaders InheritedIsRepeated", mutant{
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			return s.Session.Leave(ctx, s.real(t), true)
		},
	}},
	{"nobody leaves cleanly", "Inherited", mutant{
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			return s.Session.Leave(ctx, s.real(t), false)
		},
	}},
	{"with fewer permits than he has nobody dies", "InheritedAfterResize", mutant{
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			q, err := s.d.plainFollow(ctx, t.Queue, "")
			for _, m := range q.Members {
				clean = clean || m.ID == t.ID && m.Units > q.Capacity
			}
			return errors.Join(err, s.Session.Leave(ctx, s.real(t), clean))
		},
	}},
	{"whoever waits cannot leave", "LeaveIsIdempotent RandomSteps LeftStaysLeft", mutant{
		leave: func(s *brokenSession, ctx context.Context, t driver.Ticket, clean bool) error {
			if _, held := s.peek(t); !held {
				return driver.ErrGone
			}
			return s.Session.Leave(ctx, s.real(t), clean)
		},
	}},
	{"a session that is closed leaves cleanly", "SessionClose Inherited", mutant{
		close: func(s *brokenSession, ctx context.Context) error {
			for q := range s.d.Driver.Queues(ctx, "") {
				for _, m := range q.Members {
					if tk := (driver.Ticket{ID: m.ID, Queue: q.Name}); s.owns(tk) && m.Held && !m.Fixed {
						s.Session.Leave(ctx, tk, true)
					}
				}
			}
			return s.Session.Close(ctx)
		},
	}},
	{"Force leaves cleanly", "Inherited", mutant{
		ask: func(d *broken, ctx context.Context, queue, id string, what driver.Demand) error {
			d.n.mu.Lock()
			owner := d.n.owner[id]
			d.n.mu.Unlock()
			if what == driver.Force && owner != nil {
				return owner.Session.Leave(ctx, driver.Ticket{ID: id, Queue: queue}, true)
			}
			return d.Driver.Ask(ctx, queue, id, what)
		},
	}},
	{"Shrink does not say who has gone", "ShrinkNeverGrows RandomSteps", mutant{
		shrink: func(s *brokenSession, ctx context.Context, t driver.Ticket, units int64) error {
			return suite.Unless(s.Session.Shrink(ctx, s.real(t), units), driver.ErrGone)
		},
	}},
	{"Keep does not say who has gone", "KeepByAnotherSession RandomSteps", mutant{
		keep: func(s *brokenSession, ctx context.Context, t driver.Ticket, d time.Duration) error {
			return suite.Unless(s.Session.Keep(ctx, s.real(t), d), driver.ErrGone)
		},
	}},
	{"signals do not say where", "Wanted WantedReaders Ask", mutant{
		signals: func(s *brokenSession, ctx context.Context) (driver.Signal, error) {
			g, err := s.Session.Signals(ctx)
			g.Queue = ""
			return g, err
		},
	}},
	{"Signals goes on when the session is over", "SessionClose", mutant{
		signals: func(s *brokenSession, ctx context.Context) (driver.Signal, error) {
			g, err := s.Session.Signals(ctx)
			if errors.Is(err, driver.ErrSession) {
				<-ctx.Done()
				return driver.Signal{}, ctx.Err()
			}
			return g, err
		},
	}},
	{"only writers inherit", "InheritedAmongReaders", mutant{
		await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			got, err := s.plainAwait(ctx, t)
			if q, e := s.d.plainFollow(ctx, t.Queue, ""); e == nil {
				for _, m := range q.Members {
					got.Inherited = got.Inherited && (m.ID != t.ID || m.Units == q.Capacity)
				}
			}
			return got, err
		},
	}},
	{"sessions are named after their driver", "SessionIDs", mutant{
		id: func(d *broken) string { return fmt.Sprintf("%p", d) },
	}},
	{"nothing is counted", "RenewInAFewExchanges IdleWaiters", mutant{
		count: func(d *broken) uint64 { return 0 },
	}},
	{"proofs are in the time of another clock", "Proof", mutant{
		now: func(d *broken) driver.Instant { return d.Driver.Now().Add(time.Hour) },
	}},
	{"a replaced version is returned", "SwapComparesVersions DeletedCells", mutant{
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			c, err := d.Driver.Swap(ctx, s)
			if err == nil {
				c.Version = s.Version
			}
			return c, err
		},
	}},
	{"what is empty does not exist", "CellSize", mutant{
		swap: func(d *broken, ctx context.Context, s driver.Swap) (driver.Cell, error) {
			s.Delete = s.Delete || len(s.Value) == 0
			return d.Driver.Swap(ctx, s)
		},
	}},
	{"Watch waits for a larger version", "Watch", mutant{
		watch: func(d *broken, ctx context.Context, name string, after uint64) (driver.Cell, error) {
			for {
				c, err := d.Driver.Watch(ctx, name, after)
				if err != nil || c.Version > after {
					return c, err
				}
				after = c.Version
			}
		},
	}},
	{"Watch does not see the end", "Watch", mutant{
		watch: func(d *broken, ctx context.Context, name string, after uint64) (driver.Cell, error) {
			for {
				c, err := d.Driver.Watch(ctx, name, after)
				if err != nil || c.Exists {
					return c, err
				}
				after = c.Version
			}
		},
	}},
	{"Watch tells one of several", "Watch", mutant{
		watch: func(d *broken, ctx context.Context, name string, after uint64) (driver.Cell, error) {
			c, err := d.Driver.Watch(ctx, name, after)
			if err == nil && !d.n.once(fmt.Sprint("told of ", name, c.Version, " after ", after)) {
				<-ctx.Done()
				return driver.Cell{}, ctx.Err()
			}
			return c, err
		},
	}},
	{"a deleted cell still exists", "DeletedCells", mutant{load: loaded(func(c *driver.Cell) { c.Exists = c.Version > 0 })}},
	{"a cell without its value", "SwapComparesVersions ConcurrentCells", mutant{load: loaded(func(c *driver.Cell) { c.Value = nil })}},
	{"an empty queue is an error", "Follow", mutant{
		follow: func(d *broken, ctx context.Context, queue, after string) (driver.Queue, error) {
			q, err := d.plainFollow(ctx, queue, after)
			if err == nil && len(q.Members) == 0 {
				err = driver.ErrGone
			}
			return q, err
		},
	}},
	{"snapshots show who holds", "Snapshots RandomSteps Follow", mutant{
		follow: followed(func(d *broken, q *driver.Queue) {
			q.Members = slices.DeleteFunc(q.Members, func(m driver.Member) bool { return !m.Held })
		}),
	}},
	{"members by their names", "Snapshots RandomSteps", mutant{
		follow: followed(func(d *broken, q *driver.Queue) {
			slices.SortFunc(q.Members, func(a, b driver.Member) int { return strings.Compare(a.ID, b.ID) })
		}),
	}},
	{"nobody stands for long", "Snapshots", mutant{
		follow: followed(func(d *broken, q *driver.Queue) {
			for i := range q.Members {
				q.Members[i].Left = 0
			}
		}),
	}},
	{"all have just come", "Snapshots", mutant{
		follow: followed(func(d *broken, q *driver.Queue) {
			for i := range q.Members {
				q.Members[i].Since = time.Time{}
			}
		}),
	}},
	{"snapshots of tomorrow", "Snapshots", mutant{follow: followed(func(d *broken, q *driver.Queue) { q.Read = q.Read.Add(time.Hour) })}},
	{"a queue without a name", "Snapshots Follow", mutant{follow: followed(func(d *broken, q *driver.Queue) { q.Name = "" })}},
	{"Queues lists what is empty", "Queues", mutant{
		queues: func(d *broken, ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
			return func(yield func(driver.Queue, error) bool) {
				if !yield(driver.Queue{Name: prefix + "!", Version: "empty"}, nil) {
					return
				}
				for q, err := range d.Driver.Queues(ctx, prefix) {
					if !yield(q, err) {
						return
					}
				}
			}
		},
	}},
	{"Queues lists names alone", "Queues", mutant{
		queues: func(d *broken, ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
			return func(yield func(driver.Queue, error) bool) {
				for q, err := range d.Driver.Queues(ctx, prefix) {
					if !yield(driver.Queue{Name: q.Name}, err) {
						return
					}
				}
			}
		},
	}},
	{"Queues does not mind its context", "EndedContext", mutant{
		queues: func(d *broken, ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
			return d.Driver.Queues(context.WithoutCancel(ctx), prefix)
		},
	}},
	{"Open does not mind its context", "EndedContext", mutant{
		open: func(d *broken, ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
			return d.session(context.WithoutCancel(ctx), o)
		},
	}},
	{"Check finds nothing out", "Check", mutant{
		check: func(d *broken, ctx context.Context) []driver.Finding { return nil },
	}},
	{"Check always fails", "Check", mutant{
		check: func(d *broken, ctx context.Context) []driver.Finding {
			return []driver.Finding{{Check: "all", Status: driver.Fail}}
		},
	}},
}

// followed changes what Follow returns.
func followed(change func(d *broken, q *driver.Queue)) func(*broken, context.Context, string, string) (driver.Queue, error) {
	return func(d *broken, ctx context.Context, queue, after string) (driver.Queue, error) {
		q, err := d.plainFollow(ctx, queue, after)
		change(d, &q)
		return q, err
	}
}

// loaded changes what Load returns.
func loaded(change func(c *driver.Cell)) func(*broken, context.Context, string) (driver.Cell, error) {
	return func(d *broken, ctx context.Context, name string) (driver.Cell, error) {
		c, err := d.Driver.Load(ctx, name)
		change(&c)
		return c, err
	}
}

// joined changes what Join returns, and awaited what Await does.
func joined(change func(s *brokenSession, tk *driver.Ticket)) func(*brokenSession, context.Context, driver.Request) (driver.Ticket, error) {
	return func(s *brokenSession, ctx context.Context, r driver.Request) (driver.Ticket, error) {
		tk, err := s.plainJoin(ctx, r)
		change(s, &tk)
		return tk, err
	}
}

func awaited(change func(s *brokenSession, got *driver.Ticket)) func(*brokenSession, context.Context, driver.Ticket) (driver.Ticket, error) {
	return func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
		got, err := s.plainAwait(ctx, t)
		change(s, &got)
		return got, err
	}
}

// renewed changes each answer of Renew.
func renewed(change func(s *brokenSession, r *driver.Renewed)) func(*brokenSession, context.Context, []driver.Ticket) ([]driver.Renewed, error) {
	return func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
		answer, err := s.plainRenew(ctx, known)
		for i := range answer {
			change(s, &answer[i])
		}
		return answer, err
	}
}

// endsOf is how long the members stand, by the clock.
func endsOf(q driver.Queue) (ends string) {
	for _, m := range q.Members {
		ends += fmt.Sprint(q.Read.Add(m.Left), " ")
	}
	return ends
}

var waiting atomic.Int64

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *brokenSession) owns(t driver.Ticket) bool {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	return s.n.owner[t.ID] == s
}

func seven(_ *brokenSession, t *driver.Ticket) {
	if t.Token != 0 {
		t.Token = 7
	}
}

func heir(is bool) func(*brokenSession, *driver.Ticket) {
	return func(_ *brokenSession, t *driver.Ticket) { t.Inherited = is && t.Held }
}

// asked asks for something else.
func asked(what, instead driver.Demand) func(*broken, context.Context, string, string, driver.Demand) error {
	return func(d *broken, ctx context.Context, queue, id string, demand driver.Demand) error {
		if demand == what {
			demand = instead
		}
		return d.Driver.Ask(ctx, queue, id, demand)
	}
}

// unheard makes a world in which messages can be lost: what Await learns while they
// are, it learns with the next Renew, or never.
func unheard(w *World, repairs bool) {
	var mu sync.Mutex
	lost, heard := false, make(chan struct{})
	open := w.Open
	w.Open = func(ctx context.Context) (driver.Driver, error) {
		d, err := open(ctx)
		if err != nil {
			return nil, err
		}
		m := &mutant{
			await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
				got, err := s.plainAwait(ctx, t)
				mu.Lock()
				wait := lost && ctx.Err() == nil
				mu.Unlock()
				if wait {
					select {
					case <-heard:
					case <-ctx.Done():
						return driver.Ticket{}, ctx.Err()
					}
				}
				return got, err
			},
			renew: func(s *brokenSession, ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
				mu.Lock()
				if lost && repairs {
					lost = false
					close(heard)
				}
				mu.Unlock()
				return s.plainRenew(ctx, known)
			},
		}
		return &broken{Driver: d, m: m, n: newNotes()}, nil
	}
	w.LoseMessages = func() func() {
		lost = true
		return func() { time.Sleep(time.Second) }
	}
}

// credulous makes a world in which whoever waits is granted what a stranger sends.
func credulous(w *World) {
	sent := make(chan struct{})
	open := w.Open
	w.Open = func(ctx context.Context) (driver.Driver, error) {
		d, err := open(ctx)
		if err != nil {
			return nil, err
		}
		m := &mutant{await: func(s *brokenSession, ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				select {
				case <-sent:
					cancel()
				case <-ctx.Done():
				}
			}()
			got, err := s.plainAwait(ctx, t)
			select {
			case <-sent:
				t.Held, t.Token = true, 1
				return t, nil
			default:
				return got, err
			}
		}}
		return &broken{Driver: d, m: m, n: newNotes()}, nil
	}
	w.Stranger = func([]*driver.Opened, uint64) { close(sent) }
}

// inPeace are the rules that need more than memory; they are tried elsewhere.
func inPeace(r rule) bool { return r.Processes }

var lineOfARule = regexp.MustCompile(`\n\tat \w+\.go:\d+$`)

// The suite bites: each of the mutants fails the rules that it breaks, and each
// rule is failed by a mutant.
func TestMutantsFail(t *testing.T) {
	quick(t)
	suite.OneProcessor(t)
	bitten := map[string]bool{}
	for _, mutant := range mutants {
		t.Run(mutant.name, func(t *testing.T) {
			b := Backend{World: mutant.m.breed(memory), TTL: 10 * time.Second, Simulated: true, Small: true}
			for name := range strings.FieldsSeq(mutant.bites) {
				r, ok := rules.Find(name)
				if !ok {
					t.Errorf("there is no rule %s", name)
					continue
				}
				failure := ""
				for _, v := range variants(r, "", "") {
					synctest.Test(t, func(t *testing.T) {
						if f := verdict(r, t, b, v); f != "" {
							failure = f
						}
						time.Sleep(200 * limit) // what it has left behind ends
					})
					if failure != "" {
						break
					}
				}
				if failure == "" {
					t.Errorf("%s does not notice", name)
					continue
				}
				if !strings.Contains(failure, r.Says[0]) && !strings.HasPrefix(failure, "panic") {
					t.Errorf("%s does not say which promise was broken: %s", name, failure)
				}
				if !lineOfARule.MatchString(failure) && !strings.HasPrefix(failure, "panic") {
					t.Errorf("%s does not say at which line: %s", name, failure)
				}
				if strings.HasPrefix(name, "Lost") && name != "LostMessages" && !strings.Contains(failure, "struck at") {
					t.Errorf("%s does not say which call was struck: %s", name, failure)
				}
				t.Logf("%s: %s", name, strings.SplitN(failure, "\n", 2)[0])
				bitten[name] = true
			}
		})
	}
	t.Run("each rule", func(t *testing.T) { // after all mutants, not after a few of them
		for _, r := range rules {
			if !bitten[r.Name] && !inPeace(r) && hostile[r.Name] == nil {
				t.Errorf("no mutant fails the rule %s", r.Name)
			}
		}
	})
}

// The rules about processes bite, too.
func TestMutantsFailAcrossProcesses(t *testing.T) {
	const short = 300 * time.Millisecond
	type faulty struct {
		mutant string
		ttl    time.Duration
	}
	across := map[string][]faulty{
		"KilledProcess":          {{"nobody inherits", short}, {"Follow sees nothing that comes later", short}},
		"StoppedProcess":         {{"all expires too early", 5 * time.Second}}, // after a fifth; who looks later sees nothing wrong
		"CountingProcesses":      {{"Await returns early, with larger and larger tokens", short}},
		"ProcessesThatAreKilled": {{"Await returns early", short}},
		"ProcessesThatDie":       {{"Await returns early", short}},
		"NeighbourInTheProcess":  {{"Await returns early", short}},
		"Liveness":               {{"lives in another file", short}},
	}
	for _, r := range rules {
		if !r.Processes {
			continue
		}
		if len(across[r.Name]) == 0 {
			t.Errorf("no mutant fails the rule %s", r.Name)
		}
		for _, f := range across[r.Name] {
			t.Run(r.Name+"/"+f.mutant, func(t *testing.T) {
				t.Parallel()
				for _, mutant := range mutants {
					if mutant.name != f.mutant {
						continue
					}
					world := serve(mutant.m.breed(memory))
					if mutant.m.liveness != nil { // files stay on this side of the socket
						world = mutant.m.breed(serve(memory))
					}
					b := Backend{TTL: f.ttl, limit: 5 * time.Second, World: func(t testing.TB) World {
						w := world(t)
						w.Files = func() []string { return nil }
						return w
					}}
					failure := verdict(r, t, b, variants(r, "", "")[0])
					if failure == "" {
						t.Errorf("%s does not notice: %s", r.Name, mutant.name)
					}
					t.Log(strings.SplitN(failure, "\n", 2)[0])
					return
				}
				t.Errorf("there is no mutant %q", f.mutant)
			})
		}
	}
}

// A driver that is wrapped without being broken passes: what the mutants fail,
// they fail by their mutation.
func TestAWrappedDriverPasses(t *testing.T) {
	quick(t)
	suite.OneProcessor(t)
	whole := mutant{world: func(w *World) {
		w.Unreachable = func(context.Context) error { return errOpaque }
		w.Stranger = func([]*driver.Opened, uint64) {}
		unheard(w, true)
	}}
	b := Backend{World: whole.breed(memory), TTL: 10 * time.Second, Simulated: true, Small: true}
	for _, r := range rules {
		if inPeace(r) || hostile[r.Name] != nil {
			continue
		}
		for _, v := range variants(r, "", "") {
			synctest.Test(t, func(t *testing.T) {
				if f := verdict(r, t, b, v); f != "" {
					t.Errorf("%s: %s", r.Name, f)
				}
			})
		}
	}
}

// quick keeps rapid from looking for a smaller example of a failure that is
// expected, and lets it look long enough for one.
func quick(t *testing.T) {
	for name, value := range map[string]string{"rapid.shrinktime": "0s", "rapid.checks": "2500"} {
		old := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { flag.Set(name, old) })
	}
}
