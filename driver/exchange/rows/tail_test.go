package rows_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
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

// Promise: a queue whose last tickets are in rows of their own does what one does that has all in one row: the same
// answers, errors, events and members.
func TestATailChangesNothing(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		long := &tail{}
		both := []*rows.Queue{{Name: "q"}, {Name: "q", Tail: long}}
		now, joined, behind := start, 0, 0
		for range 300 {
			now = now.Add(time.Duration(r.Int64N(int64(ttl / 20))))
			what, n, units, clean := r.IntN(20), r.IntN(3), 1+r.Int64N(3), r.IntN(2) == 0
			id := fmt.Sprint("ticket ", r.IntN(joined+1))
			var is []string
			for _, q := range both {
				rows.Begin(q, now)
				say := ""
				switch {
				case what < 10:
					j := join(fmt.Sprint("ticket ", joined), n)
					if what == 0 { // again, before it can have expired
						j.ID = fmt.Sprint("ticket ", max(0, joined-1-n))
					}
					j.Kind, j.Capacity, j.Units, j.NoWait = driver.Semaphore, 3, units, what == 1
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
					say = fmt.Sprint(q.Leave(exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: id}, Session: session(n), Clean: clean, Tombstone: ttl}))
				case what == 11 && len(q.Tickets) > 0:
					say = fmt.Sprint(q.Leave(exchange.Leave{Ref: exchange.Ref{Queue: "q", ID: q.Tickets[0].ID}, Session: q.Tickets[0].Session, Clean: clean}))
				case what == 12:
					say = fmt.Sprint(q.Withdraw(session(n), []string{id, fmt.Sprint("ticket ", joined-1)}, clean))
				case what == 13:
					say = fmt.Sprint(q.Shrink(session(n), id, 1))
				case what == 14:
					say = fmt.Sprint(q.Keep(session(n), id, ttl))
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
				is = append(is, say+fmt.Sprintf("\n%+v %v", events(q.Events), q.Unclean))
			}
			if !reflect.DeepEqual(is[0], is[1]) {
				a, b := strings.Split(is[0], "\n"), strings.Split(is[1], "\n")
				for i := range min(len(a), len(b)) {
					if a[i] != b[i] {
						t.Fatalf("seed %d, step %d with %s: in one row\n%s\nwith a tail\n%s", seed, what, id, a[i], b[i])
					}
				}
				t.Fatalf("seed %d, step %d with %s: %d lines in one row, with a tail %d", seed, what, id, len(a), len(b))
			}
			if both[1].Behind != len(long.all) {
				t.Fatalf("seed %d: %d are counted behind, and %d are", seed, both[1].Behind, len(long.all))
			}
			behind = max(behind, both[1].Behind)
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
