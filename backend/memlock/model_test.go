package memlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

// check counts everything anew, and compares it with what the world knows.
func (w *World) check() error {
	w.enter()
	defer w.exit()
	tickets, first := 0, never
	for name, q := range w.queues {
		var sum int64
		var last uint64
		for _, row := range q.Tickets {
			tickets++
			t := w.tickets[row.ID]
			switch {
			case t == nil || row != &t.Ticket || t.queue != name:
				return fmt.Errorf("%s: ticket %s is in the wrong place", name, row.ID)
			case instant(t.End) <= w.now:
				return fmt.Errorf("%s: ticket %s has outlived its end", name, t.ID)
			case t.owner.usable() != nil && !t.Fixed:
				return fmt.Errorf("%s: ticket %s has outlived its session", name, t.ID)
			}
			first = min(first, instant(t.End))
			sum += t.Units
			if fits := sum <= q.Capacity; t.Held != fits {
				return fmt.Errorf("%s: held: %v, but %d units of %d", name, t.Held, sum, q.Capacity)
			}
			if t.Held {
				if t.Token <= last {
					return fmt.Errorf("%s: token %d after %d", name, t.Token, last)
				}
				last = t.Token
			}
		}
	}
	if tickets != len(w.tickets) {
		return fmt.Errorf("%d tickets in queues, %d known", tickets, len(w.tickets))
	}
	if w.armed > first {
		return fmt.Errorf("the timer fires at %d, and a ticket ends at %d", w.armed, first)
	}
	return nil
}

func TestTheRuleHoldsWhateverHappens(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble.Run(t, func(t *testing.T) { anything(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

// anything does random things and checks the world after each.
func anything(t *testing.T, r *rand.Rand) {
	ctx := context.Background()
	w := NewWorld()
	d := w.Driver()
	defer d.Close()
	type client struct {
		driver.Session
		known []driver.Ticket
	}
	open := func() *client {
		s, err := d.Open(ctx, driver.SessionOptions{TTL: time.Duration(1+r.IntN(5)) * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return &client{Session: s}
	}
	clients := []*client{open(), open(), open()}
	capacity := []int64{1, 3, 8}
	for step := range 400 {
		i := r.IntN(len(clients))
		c := clients[i]
		var k driver.Ticket
		if len(c.known) > 0 {
			k = c.known[r.IntN(len(c.known))]
		}
		var err error
		did := ""
		switch n := r.IntN(20); {
		case n < 6 || k.ID == "":
			did = "join"
			q := r.IntN(len(capacity))
			req := driver.Request{
				ID: fmt.Sprintf("%032x", step), Queue: fmt.Sprint("q", q), Kind: driver.Semaphore,
				Capacity: capacity[q], Units: 1 + r.Int64N(capacity[q]), NoWait: r.IntN(4) == 0,
			}
			if r.IntN(4) == 0 {
				req.Hold = time.Duration(1+r.IntN(4000)) * time.Millisecond
			}
			k, err = c.Join(ctx, req)
			if err == nil {
				c.known = append(c.known, k)
			}
		case n < 10:
			did = "leave"
			err = c.Leave(ctx, k, r.IntN(2) == 0)
			c.known = slices.DeleteFunc(c.known, func(x driver.Ticket) bool { return x.ID == k.ID })
		case n == 10:
			did = "shrink"
			err = c.Shrink(ctx, k, 1+r.Int64N(3))
		case n == 11:
			did = "keep"
			if err = c.Keep(ctx, k, time.Duration(1+r.IntN(4000))*time.Millisecond); driver.IsPermanent(err) {
				err = nil // not held
			}
		case n == 12:
			did = "ask"
			err = d.Ask(ctx, k.Queue, k.ID, driver.Revoke+driver.Demand(r.IntN(3)))
		case n == 13 && r.IntN(3) == 0:
			did = "close"
			err = c.Close(ctx)
			clients[i] = open()
		case n == 14 && r.IntN(8) == 0:
			did = "expire"
			d.Faults().Expire()
			for i := range clients {
				clients[i] = open()
			}
		case n < 18:
			did = "sleep"
			time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		default:
			did = "renew"
			_, err = c.Renew(ctx, c.known)
		}
		if err != nil && !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrBusy) {
			t.Fatalf("step %d, %s: %v", step, did, err)
		}
		if err := w.check(); err != nil {
			t.Fatalf("step %d, %s: %v", step, did, err)
		}
	}
	for _, c := range clients {
		if err := c.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Minute) // beyond every fixed end
	if err := w.check(); err != nil {
		t.Fatal(err)
	}
	if len(w.tickets) != 0 || w.timer != nil {
		t.Fatalf("%d tickets are left, and the timer %v", len(w.tickets), w.timer)
	}
}
