package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// What may follow what in the life of a ticket: the table of machine.go.
var lives = map[ticketState][]ticketState{
	ticketJoining: {ticketQueued, ticketHeld, ticketLeft},
	ticketQueued:  {ticketHeld, ticketLeft},
	ticketHeld:    {ticketLost, ticketLeft},
	ticketLost:    {ticketLeft},
	ticketLeft:    {ticketExpiring},
}

// Tickets to which things happen in random order: a ticket goes no other way than the table says, a lease has ended
// if and only if its ticket is not held or it was released, one caller takes the ticket, and in the end nothing is
// left of it.
func TestALifeOfATicketInAnyOrder(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			e := open(t)
			defer e.Close()
			r := &Request{Name: "q", Queue: "q", Kind: driver.Semaphore, Units: 1, Capacity: 3}
			if random.IntN(3) == 0 {
				r.Hold = e.TTL()
			}
			q := e.queue(r.Queue)
			defer q.leave()
			k := q.ticketAs(r, NewID())
			if err := k.enroll(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			k.sent = true
			var all []*Lease // its leases
			released := map[*Lease]bool{}
			claimed := 0
			var log []string
			was := k.state
			steps := map[string]func(){
				"queued": func() { k.queued(k.tk) },
				"held": func() {
					tk := driver.Ticket{ID: k.req.ID, Queue: q.name, Held: true, Token: 1, Proof: e.d.Now()}
					q.unlock()
					_, err := k.hold(tk)
					q.mu.Lock()
					if holds := was <= ticketQueued; holds != (err == nil) {
						t.Errorf("held: %v", err)
					}
				},
				"lease": func() {
					if k.state == ticketHeld {
						l := lease(r)
						k.grant(l, e.d.Now())
						_ = l.ended() // it is closed once
						all = append(all, l)
					}
				},
				"release": func() {
					if len(all) > 0 {
						l := all[random.IntN(len(all))]
						lost := !released[l] && (l.why != nil || k.state == ticketHeld && k.deadline <= e.d.Now())
						released[l] = true
						q.unlock()
						said := make(chan error, 1)
						e.Background(func() { said <- l.Release(true) })
						synctest.Wait()
						q.mu.Lock()
						select {
						case err := <-said:
							if lost && !errors.Is(err, ErrLost) {
								t.Errorf("a lease that was lost is released: %v", err)
							}
						default: // it waits for the ticket to leave
						}
					}
				},
				"gone":    func() { k.loseLocked(errForgotten, false) },
				"evicted": func() { k.loseLocked(ErrEvicted, true) },
				"late":    func() { k.checkDeadline(k.deadline + 1) },
				"overdue": func() { k.deadline = min(k.deadline, e.d.Now()) }, // nobody has looked yet
				"doubt":   func() { k.doubt = errors.New("no answer") },
				"revoked": func() { k.revoked = true },
				"abandon": func() {
					if k.live == 0 {
						k.abandonLocked()
					}
				},
				"claim": func() {
					if k.live == 0 && k.claim() {
						claimed++
						q.afterUnlock(k.forget)
					}
				},
				"time": func() {
					q.unlock()
					time.Sleep(e.TTL() / 4)
					synctest.Wait()
					q.mu.Lock()
				},
			}
			names := []string{"queued", "held", "held", "lease", "lease", "release", "gone", "evicted", "late", "overdue", "doubt", "revoked", "abandon", "claim", "time"}
			for range 12 {
				name := names[random.IntN(len(names))]
				q.mu.Lock()
				was = k.state
				steps[name]()
				log = append(log, fmt.Sprintf("%s %d>%d", name, was, k.state))
				several := name == "time" || name == "release" // may go several steps of the table
				if k.state != was && !slices.Contains(lives[was], k.state) && !(several && follows(was, k.state)) {
					t.Errorf("no ticket goes this way")
				}
				if loses := name == "gone" || name == "evicted" || name == "late"; loses && was != ticketHeld && k.state != was {
					t.Errorf("what is not held is lost")
				}
				for _, l := range all {
					if ended := l.why != nil; ended != (k.state != ticketHeld || released[l]) {
						t.Errorf("a lease has ended: %v (%v), released: %v", ended, l.why, released[l])
					}
				}
				if !k.place.listed() && k.state < ticketLeft {
					t.Error("the backend may have it, and the client has forgotten it")
				}
				q.unlock()
				synctest.Wait()
			}
			if claimed > 1 {
				t.Errorf("it was claimed %d times", claimed)
			}
			for _, l := range all {
				_ = l.Release(true)
			}
			k.abandon()
			time.Sleep(2 * e.TTL())
			synctest.Wait()
			if k.place.listed() || k.live != 0 || e.tickets.Load() != 0 {
				t.Errorf("it is listed still: %v, with %d grants", k.place.listed(), k.live)
			}
			if t.Failed() {
				t.Fatalf("seed %d: %s", seed, strings.Join(log, ", "))
			}
		})
	}
}

// follows reports whether a ticket can go from one state to another, with others in between.
func follows(from, to ticketState) bool {
	return slices.ContainsFunc(lives[from], func(s ticketState) bool { return s == to || follows(s, to) })
}
