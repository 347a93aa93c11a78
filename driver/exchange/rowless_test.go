package exchange_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/errtest"
)

// rowless is a store without rows of sessions, and with no more of what is optional than this.
type rowless struct {
	exchange.Store
	traits  exchange.Traits
	end     func([]exchange.Leave) error
	confirm func(exchange.Ref) (undone bool, err error)
}

func (r rowless) Traits() exchange.Traits { return r.traits }

func (r rowless) End(_ context.Context, _ exchange.Session, tickets []exchange.Leave) ([]string, error) {
	if r.end != nil {
		return nil, r.end(tickets)
	}
	return nil, nil
}

func (r rowless) Confirm(_ context.Context, _ exchange.Session, t exchange.Ref, _ bool) (bool, error) {
	if r.confirm != nil {
		return r.confirm(t)
	}
	return false, nil
}

// openedOn is opened on such a store, whose client bounds no exchange.
func openedOn(t *testing.T, r rowless, script Script) *driver.Opened {
	t.Helper()
	store := newScripted()
	if script.Listen == nil {
		script.Listen = silent
	}
	store.Script = script
	r.Store, r.traits.Bounded, r.traits.LookSettles = store, true, true
	s := over(t, r)
	d := exchange.DriverOf(s)
	for r.traits.Listens && (!d.Hears() || d.Resyncs() == 0) { // else a Join would meet the resync
		time.Sleep(time.Millisecond)
	}
	return s
}

// Promise: a heartbeat names the tickets of its caller first, says how many these are, and takes the
// others for strays without any other exchange.
func TestAHeartbeatSaysWhatToExtend(t *testing.T) {
	var asked []exchange.Ref
	var extended int
	s := openedOn(t, rowless{}, Script{
		Join: says(held),
		Renew: func(_ context.Context, o exchange.Session, refs []exchange.Ref, extend int) (exchange.Renewal, error) {
			if o.Owner != "me" || o.TTL != time.Minute || o.Mailbox == "" {
				t.Errorf("the session is %+v", o)
			}
			asked, extended = refs, extend
			var all []exchange.Status
			for i := range refs {
				st := held
				st.Stray = i >= extend
				all = append(all, st)
			}
			return exchange.Renewal{Tickets: all, History: "another"}, nil
		},
	})
	named, stray := joined(t, s), joined(t, s)
	got, err := s.Renew(t.Context(), []driver.Ticket{named})
	want := []exchange.Ref{{Queue: "q", ID: named.ID}, {Queue: "q", ID: stray.ID}}
	if err != nil || extended != 1 || !slices.Equal(asked, want) {
		t.Fatalf("%d of %v are to be extended, %v", extended, asked, err)
	}
	if len(got) != 2 || got[0].State != driver.Kept || got[1].State != driver.Stray {
		t.Errorf("the answer is %+v", got)
	}
}

// Promise: of what could not be asked about in one heartbeat nothing is said, and what was asked in
// several exchanges is proven from when its own was sent.
func TestAHeartbeatOfSeveralExchanges(t *testing.T) {
	var sent driver.Instant
	s := openedOn(t, rowless{}, Script{
		Join: says(held),
		Renew: func(context.Context, exchange.Session, []exchange.Ref, int) (exchange.Renewal, error) {
			time.Sleep(time.Millisecond)
			sent = driver.Now()
			late := held
			late.Sent = sent
			return exchange.Renewal{Tickets: []exchange.Status{late, {State: exchange.NotAsked}}}, nil
		},
	})
	a, b := joined(t, s), joined(t, s)
	got, err := s.Renew(t.Context(), []driver.Ticket{a, b})
	if err != nil || len(got) != 1 || got[0].ID != a.ID || got[0].State != driver.Kept || got[0].Proof != sent {
		t.Errorf("the answer is %+v, %v; it was sent at %v", got, err, sent)
	}
}

// Promise: without rows of sessions, tickets for which one exchange has no room are extended by further ones.
func TestAHeartbeatOfManyTicketsExtendsAll(t *testing.T) {
	extended := 0
	s := openedOn(t, rowless{traits: exchange.Traits{PerRenew: 2}}, Script{
		Join: says(held),
		Renew: func(ctx context.Context, o exchange.Session, refs []exchange.Ref, extend int) (exchange.Renewal, error) {
			extended += extend
			return renews(always(held))(ctx, o, refs, extend)
		},
		Look: sees(always(held)),
	})
	var named []driver.Ticket
	for range 5 {
		named = append(named, joined(t, s))
	}
	joined(t, s) // a stray
	if _, err := s.Renew(t.Context(), named); err != nil || extended != len(named) {
		t.Errorf("%d of %d tickets are extended, %v", extended, len(named), err)
	}
}

// Promise: a Join that extends the ticket of an earlier one proves it from when it was sent.
func TestAJoinThatExtendsItsTicket(t *testing.T) {
	first := true
	var sent driver.Instant
	s := openedOn(t, rowless{}, Script{Join: func(context.Context, exchange.Join) (exchange.Status, error) {
		if first {
			first = false
			return exchange.Status{}, context.DeadlineExceeded
		}
		st := held
		sent = driver.Now()
		st.Sent = sent
		return st, nil
	}})
	r := request()
	unanswered(t, s, r)
	r.Retry = true
	if k, err := s.Join(t.Context(), r); err != nil || k.Proof != sent {
		t.Errorf("%+v, %v, and was sent at %v", k, err, sent)
	}
}

// Promise: a ticket is named with the tag of its last status.
func TestATicketIsNamedWithItsTag(t *testing.T) {
	tagged := held
	tagged.Tag = 1
	var tags []uint64
	note := func(refs []exchange.Ref) {
		for _, r := range refs {
			tags = append(tags, r.Tag)
		}
	}
	s := openedOn(t, rowless{end: func(all []exchange.Leave) error { tags = append(tags, all[0].Tag); return nil }}, Script{
		Join: says(tagged),
		Renew: func(_ context.Context, _ exchange.Session, refs []exchange.Ref, _ int) (exchange.Renewal, error) {
			note(refs)
			st := tagged
			st.Tag = 2
			return exchange.Renewal{Tickets: []exchange.Status{st}}, nil
		},
		Look: func(_ context.Context, _ exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
			note(refs)
			st := tagged
			st.Tag = 3
			return []exchange.Status{st}, nil
		},
	})
	k := joined(t, s)
	errtest.Must(s.Renew(t.Context(), []driver.Ticket{k}))(t)
	r := request()
	r.ID, r.Retry = k.ID, true
	errtest.Must(s.Join(t.Context(), r))(t)
	errtest.None(t, s.Close(t.Context()))
	if want := []uint64{1, 2, 3}; !slices.Equal(tags, want) {
		t.Errorf("the tags are %v, want %v", tags, want)
	}
}

// changing is a store whose tickets can be shrunk and kept.
type changing struct {
	rowless
	exchange.Changer
	tag *uint64 // with which the last Look named a ticket
}

func (c changing) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, c, changes, answer)
}
func (c changing) Join(context.Context, exchange.Join) (exchange.Status, error) {
	return exchange.Status{State: exchange.Held, Token: 7, Tag: 1}, nil
}
func (c changing) Shrink(context.Context, exchange.Session, exchange.Ref, int64) (bool, error) {
	return false, nil
}
func (c changing) Keep(context.Context, exchange.Session, exchange.Ref, time.Duration) error {
	return nil
}
func (c changing) Look(_ context.Context, _ exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
	*c.tag = refs[0].Tag
	return []exchange.Status{held}, nil
}

// Promise: a ticket that was shrunk or kept is named without its tag: it may be somewhere else.
func TestAChangedTicketIsNamedWithoutItsTag(t *testing.T) {
	for name, change := range map[string]func(context.Context, *driver.Opened, driver.Ticket) error{
		"Shrink": func(ctx context.Context, s *driver.Opened, k driver.Ticket) error { return s.Shrink(ctx, k, 1) },
		"Keep":   func(ctx context.Context, s *driver.Opened, k driver.Ticket) error { return s.Keep(ctx, k, time.Hour) },
	} {
		c := changing{rowless: rowless{Store: exchangetest.NewWorld().Store()}, tag: new(uint64)}
		s := over(t, c)
		r := request()
		k := errtest.Must(s.Join(t.Context(), r))(t)
		errtest.None(t, change(t.Context(), s, k))
		*c.tag = 9
		r.Retry = true
		if _, err := s.Join(t.Context(), r); err != nil || *c.tag != 0 {
			t.Errorf("after a %s it is named with the tag %d, %v", name, *c.tag, err)
		}
	}
}

// Promise: a session ends with its tickets named: waiters first, since they would get what holders leave,
// with a tombstone for what may still arrive; none with a fixed end.
func TestTheEndOfASessionNamesItsTickets(t *testing.T) {
	var replies []exchange.Status
	var ended []exchange.Leave
	s := openedOn(t, rowless{end: func(all []exchange.Leave) error { ended = all; return nil }}, Script{
		Join: func(context.Context, exchange.Join) (exchange.Status, error) {
			if len(replies) == 0 {
				return exchange.Status{}, context.DeadlineExceeded
			}
			st := replies[0]
			replies = replies[1:]
			return st, nil
		},
	})
	fixed := held
	fixed.Fixed, fixed.Left, fixed.Hold = true, time.Hour, time.Hour
	replies = []exchange.Status{held, waits, fixed}
	holder, waiter, _ := joined(t, s), joined(t, s), joined(t, s)
	lost := request()
	unanswered(t, s, lost)
	errtest.None(t, s.Close(t.Context()))
	if len(ended) != 3 || ended[2].ID != holder.ID || !ended[2].Unfixed || ended[2].Tombstone != 0 {
		t.Fatalf("the session ends with %+v", ended)
	}
	for _, l := range ended[:2] {
		if l.Unfixed || l.ID != waiter.ID && l.ID != lost.ID || (l.Tombstone != 0) != (l.ID == lost.ID) {
			t.Errorf("the session ends with %+v", l)
		}
	}
}

// Promise: an event may name its ticket by the number, and grants nothing unless its sender shows that
// it knows the ticket's ID: then the client asks.
func TestAnEventThatMustProveItsSender(t *testing.T) {
	for name, proves := range map[string]bool{"a sender that knows the ID": true, "a stranger": false} {
		t.Run(name, func(t *testing.T) {
			var number uint64
			looks := 0
			events := make(chan exchange.Event)
			s := openedOn(t, rowless{traits: exchange.Traits{Listens: true}}, Script{
				Listen: listens(closed(), events),
				Join: func(_ context.Context, j exchange.Join) (exchange.Status, error) {
					number = j.Number
					return waits, nil
				},
				Look: sees(func() exchange.Status { looks++; return exchange.Status{State: exchange.Held, Token: 9} }),
			})
			k := joined(t, s)
			var asked string
			events <- exchange.Event{Type: exchange.Granted, Number: number, Status: held, Proves: func(id string) bool { asked = id; return proves }}
			got, err := s.Await(t.Context(), k)
			if err != nil || asked != k.ID || (got.Token == held.Token) != proves || (looks > 0) == proves {
				t.Errorf("%+v, %v, after %d looks; the proof is for %q", got, err, looks, asked)
			}
		})
	}
}

// Promise: the event of a grant that says when a fixed time began proves it from then, without an
// exchange, and never from the future.
func TestAFixedTimeBeginsWhenTheEventSays(t *testing.T) {
	for name, later := range map[string]time.Duration{"a moment after the Join": 3 * time.Millisecond, "in the future": time.Hour} {
		t.Run(name, func(t *testing.T) {
			var number uint64
			var sent driver.Instant
			began := time.UnixMicro(1_700_000_000_000_000)
			events := make(chan exchange.Event)
			s := openedOn(t, rowless{traits: exchange.Traits{Listens: true}}, Script{
				Listen: listens(closed(), events),
				Join: func(_ context.Context, j exchange.Join) (exchange.Status, error) {
					st := waits
					number, sent = j.Number, driver.Now()
					st.Sent, st.At = sent, began
					return st, nil
				},
				Look: sees(func() exchange.Status {
					t.Error("it asks")
					return exchange.Status{State: exchange.Held, Token: 7, Fixed: true, Left: time.Minute, Hold: time.Minute}
				}),
			})
			r := request()
			r.Hold = time.Minute
			k := errtest.Must(s.Join(t.Context(), r))(t)
			time.Sleep(5 * time.Millisecond)
			granted := held
			granted.At = began.Add(later)
			events <- exchange.Event{Type: exchange.Granted, Number: number, Status: granted}
			got, err := s.Await(t.Context(), k)
			if want := min(sent.Add(later), driver.Now()); err != nil || got.Proof > want || later < time.Second && got.Proof != want {
				t.Errorf("%+v, %v; want a proof at %v", got, err, want)
			}
		})
	}
}

// Promise: a grant that is not confirmed is no grant, and the same Join may be sent again.
func TestAGrantIsConfirmed(t *testing.T) {
	fails := errors.New("no replica has it")
	undone := true
	joins := 0
	s := openedOn(t, rowless{confirm: func(exchange.Ref) (bool, error) { return undone, fails }}, Script{
		Join: func(context.Context, exchange.Join) (exchange.Status, error) { joins++; return held, nil },
		Look: sees(always(held)),
	})
	r := request()
	if k, err := s.Join(t.Context(), r); !errors.Is(err, fails) || k.Held {
		t.Fatalf("%+v, %v", k, err)
	}
	undone = false
	if _, err := s.Join(t.Context(), r); !errors.Is(err, fails) || joins != 2 {
		t.Fatalf("the ticket that was taken out: %v, after %d Joins", err, joins)
	}
	fails = nil
	r.Retry = true
	if k, err := s.Join(t.Context(), r); err != nil || !k.Held || joins != 2 {
		t.Errorf("the ticket that could not be taken out: %+v, %v, after %d Joins", k, err, joins)
	}
}

// Promise: a waiter that is kept out by what sends no events looks again and again, less and less
// often, and does so without a Settle, if a look settles.
func TestAWaiterThatIsBlockedPolls(t *testing.T) {
	looks := 0
	blocked := waits
	blocked.Blocked = true
	var first, last time.Time
	s := openedOn(t, rowless{}, Script{
		Join: says(blocked), Listen: listens(closed(), nil),
		Settle: func(context.Context, string) (bool, error) { t.Error("it settles"); return false, nil },
		Look: func(context.Context, exchange.Session, []exchange.Ref) ([]exchange.Status, error) {
			if looks++; looks == 1 {
				first = time.Now()
			}
			if last = time.Now(); looks < 6 {
				return []exchange.Status{blocked}, nil
			}
			return []exchange.Status{held}, nil
		},
	})
	k, err := s.Await(t.Context(), joined(t, s))
	if err != nil || !k.Held || last.Sub(first) < 20*time.Millisecond { // 4.5 + 6.75 + 10 + 15 + 22.5 ms
		t.Errorf("%+v, %v, after %d looks in %v", k, err, looks, last.Sub(first))
	}
}

// Promise: a store that listens from the beginning is told of a Follow that waits by its first exchange.
func TestAFollowIsOneExchange(t *testing.T) {
	var followers []exchange.Follower
	s := openedOn(t, rowless{traits: exchange.Traits{Listens: true}}, Script{
		Listen: listens(closed(), nil),
		Read: func(_ context.Context, queue string, f exchange.Follower) (exchange.Snapshot, error) {
			followers = append(followers, f)
			return exchange.Snapshot{Queue: driver.Queue{Name: queue}, At: time.UnixMicro(int64(len(followers)))}, nil
		},
	})
	d := exchange.DriverOf(s)
	errtest.Must(d.Follow(t.Context(), "q", ""))(t)
	errtest.Must(d.Follow(t.Context(), "q", "another"))(t)
	if len(followers) != 2 || followers[0] != (exchange.Follower{}) || followers[1].Mailbox == "" || followers[1].Topic == 0 {
		t.Errorf("the followers are %+v", followers)
	}
}
