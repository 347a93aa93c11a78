package rows_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// tail has the tickets in memory.
type tail struct{ all []*rows.Ticket }

func (l *tail) First() []*rows.Ticket {
	first := slices.Clone(l.all[:min(5, len(l.all))])
	l.all = l.all[len(first):]
	return first
}

func (l *tail) Add(t *rows.Ticket) { l.all = append(l.all, t) }

func (l *tail) Find(id string) *rows.Ticket {
	for _, t := range l.all {
		if t.ID == id {
			return t
		}
	}
	return nil
}

func (l *tail) Save(t *rows.Ticket) {}
func (l *tail) Remove(t *rows.Ticket) {
	l.all = slices.DeleteFunc(l.all, func(o *rows.Ticket) bool { return o == t })
}
func (l *tail) All() []*rows.Ticket { return l.all }

// memory has the rows of a queue that is kept in memory.
type memory struct {
	q    *rows.Queue
	last uint64 // as if tokens followed the clock
	told []rows.Event
}

func (m *memory) New() *rows.Ticket { return &rows.Ticket{} }
func (m *memory) Left(*rows.Ticket) {}
func (m *memory) Last() *uint64     { return &m.last }

func (m *memory) Find(_, id string) *rows.Ticket {
	if at := slices.IndexFunc(m.q.Tickets, func(t *rows.Ticket) bool { return t.ID == id }); at >= 0 {
		return m.q.Tickets[at]
	}
	return nil
}

func (m *memory) Told(t *rows.Ticket, what exchange.EventType, demand driver.Demand) {
	ev := exchange.Event{Type: what, ID: t.ID, Demand: demand}
	if what == exchange.Granted || what == exchange.FirstWaiter {
		ev.Status = m.q.Status(t)
	}
	m.told = append(m.told, rows.Event{Mailbox: t.Session.Mailbox, Event: ev})
}

// Promise: a queue whose last tickets are in rows of their own, or that is kept in memory, does what one does that has
// all in one row: the same answers, errors, events and members.
func TestATailAndMemoryChangeNothing(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		long := &tail{}
		kept := &memory{}
		kept.q = &rows.Queue{Name: "q", Memory: kept}
		all := []*rows.Queue{{Name: "q"}, {Name: "q", Tail: long}, kept.q}
		now, joined, behind := start, 0, 0
		for range 300 {
			now = now.Add(time.Duration(r.Int64N(int64(ttl / 20))))
			what, n, units, clean := r.IntN(20), r.IntN(3), 1+r.Int64N(3), r.IntN(2) == 0
			id := fmt.Sprint("ticket ", r.IntN(joined+1))
			var is []string
			kept.last, kept.told = uint64(now.UnixMicro()/10)-1, nil
			for _, q := range all {
				rows.Begin(q, now)
				say := ""
				switch {
				case what < 10:
					j := join(fmt.Sprint("ticket ", joined), n)
					if what == 0 { // again, before it can have expired
						j.ID = fmt.Sprint("ticket ", max(0, joined-1-n))
					}
					j.Kind, j.Capacity, j.Units, j.NoWait = driver.Semaphore, 3, units, what == 1
					j.Session.TTL /= time.Duration(1 + n)
					if what == 2 {
						j.Hold = ttl
					}
					if q.Resized {
						j.Capacity = q.Capacity
						j.Units = min(j.Units, j.Capacity)
					}
					st, err := q.Join(j)
					say = shown(st, err)
				case what == 10:
					say = fmt.Sprint(q.Leave(exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: id}, Session: session(n), Clean: clean, Tombstone: ttl / time.Duration(units*units)}))
				case what == 11 && len(q.Tickets) > 0:
					say = fmt.Sprint(q.Leave(exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: q.Tickets[0].ID}, Session: q.Tickets[0].Session, Clean: clean}))
				case what == 12:
					say = fmt.Sprint(q.Withdraw(session(n), []string{id, fmt.Sprint("ticket ", joined-1)}, clean))
				case what == 13:
					say = fmt.Sprint(q.Shrink(session(n), id, 1))
				case what == 14:
					say = fmt.Sprint(q.Keep(session(n), id, ttl/time.Duration(units*units)))
				case what == 15:
					say = fmt.Sprint(q.Ask(id, driver.Revoke+driver.Demand(units-1)))
				case what == 16 && units == 1:
					say = fmt.Sprint(q.Resize(int64(n)))
				default:
					for i := max(0, joined-50); i < joined; i++ {
						st := q.Look(session(n), fmt.Sprint("ticket ", i), i%2 == n%2)
						say += shown(st, nil)
					}
				}
				for _, m := range q.Read(exchange.Follower{}).Members {
					say += fmt.Sprintf("\n%+v", m)
				}
				is = append(is, say+fmt.Sprintf("\n%+v %v", events(append(q.Events, kept.told...)), q.Unclean))
			}
			for i, how := range []string{1: "with a tail", 2: "in memory"} {
				a, b := strings.Split(is[0], "\n"), strings.Split(is[i], "\n")
				for i := range min(len(a), len(b)) {
					if a[i] != b[i] {
						t.Fatalf("seed %d, step %d with %s: in one row\n%s\n%s\n%s", seed, what, id, a[i], how, b[i])
					}
				}
				if len(a) != len(b) {
					t.Fatalf("seed %d, step %d with %s: %d lines in one row, %s %d", seed, what, id, len(a), how, len(b))
				}
			}
			if all[1].Behind != len(long.all) {
				t.Fatalf("seed %d: %d are counted behind, and %d are", seed, all[1].Behind, len(long.all))
			}
			if len(kept.q.Tombstones) != len(all[0].Tombstones) {
				t.Fatalf("seed %d: %d tombstones in one row, in memory %d", seed, len(all[0].Tombstones), len(kept.q.Tombstones))
			}
			behind = max(behind, all[1].Behind)
			if what < 10 {
				joined++
			}
		}
		if seed == 0 && behind == 0 {
			t.Error("there was never a tail")
		}
	}
}

// shown is what of a status does not depend on where the ticket is.
func shown(st exchange.Status, err error) string {
	if st.Ahead > 0 {
		st.Ahead, st.Due = 0, 0
	}
	return fmt.Sprintf("\n%+v %v", st, err)
}

func events(all []rows.Event) (is []string) {
	for _, ev := range all {
		ev.Status.Wanted = false // a waiter behind it may have expired without having been found
		is = append(is, ev.Mailbox+ev.ID+fmt.Sprint(ev.Type, ev.Demand)+shown(ev.Status, nil))
	}
	return is
}
