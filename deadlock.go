package interlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/deadlock"
	"github.com/interlock-go/interlock/internal/engine"
	"github.com/interlock-go/interlock/internal/oneline"
	"github.com/interlock-go/interlock/internal/parentjob"
	"github.com/interlock-go/interlock/internal/record"
)

// Deadlock is a cycle of waits: each is kept waiting by the next one, and the last by the first. None
// of them ends unless somebody gives up.
type Deadlock struct{ Waits []Blocked }

// Blocked is a wait of a [Deadlock].
type Blocked struct {
	Client *Client // one of those that Deadlocks was given, for the backend of the lock
	Name   string  // of the lock that is waited for, without the client's prefix
	Kind   string
	Units  int64

	// Outside: the name does not begin with the prefix of any of the clients of the backend. So it is the
	// whole name, and none of them can name the lock.
	Outside bool

	Owner string
	Note  string    // of the lock that is waited for, as given with Note
	Since time.Time // by the clock of the waiter

	// By is what keeps it waiting: what the owner of the next wait holds, or its place in front.
	By Member
}

// String names the locks and their owners, in one line.
func (d Deadlock) String() string {
	var b strings.Builder
	for i, w := range d.Waits {
		if i > 0 {
			b.WriteString("; ")
		}
		holds := "is held by"
		if w.By.Token == 0 {
			holds = "is waited for in front by"
		}
		fmt.Fprintf(&b, "%s waits for %s, which %s %s", oneline.Name(w.Owner), oneline.Name(w.Name), holds, oneline.Name(w.By.Owner))
	}
	return b.String()
}

// Deadlocks finds deadlocks among the locks of the backends of these clients, which may have been
// acquired by any clients. Two clients of one backend count once; of those with different prefixes each lock has the
// one that can name it.
//
// What is reported is certain: at one moment, after the call has begun, all these waits went on, and
// all that is said to be held was held. So it can only end if somebody gives up: a context is
// cancelled, a lease is released from outside of the waiting code, lost or evicted, or a process dies.
// For that each waiter of a suspected cycle is asked whether it still waits. One that does not answer
// within a TTL is in no deadlock, for it may be dead.
//
//   - Somebody holds what the context carries with which it waits: that of [Lock.Do] or [Lease.Bind], and, in
//     a job of interlock run, the locks of that. [All] holds its parts. A lease that the context does not carry is
//     not known to be held by the waiter. A goroutine that the holder does not wait for is given [Detach], or it
//     counts as the holder, too.
//     Of several leases each counts until it ends; of more than a hundred, only the innermost.
//   - A wait with a time limit (a deadline of its context, [Wait], or a lease of [ExpiresAfter] in its context) is in
//     no deadlock, since it ends. A lease of ExpiresAfter, or one that [AtLeast] keeps, holds up nobody for ever.
//   - A wait is known to others when it has lasted for a second.
//   - What counts is who can never be served: a writer waits for each reader, a reader for each writer in front,
//     and a semaphore's waiter for so many of those in front that too few permits are left without them.
//
// Of cycles that have a wait in common one is reported. They are sorted by their oldest waits, with
// which each begins. While a backend cannot be reached it waits, until ctx ends.
func Deadlocks(ctx context.Context, clients ...*Client) ([]Deadlock, error) {
	found, err := findCycles(ctx, clients)
	var all []Deadlock
	for _, c := range found {
		all = append(all, deadlockOf(c))
	}
	return all, failed("find deadlocks", "", err)
}

func findCycles(ctx context.Context, clients []*Client) ([]deadlock.Cycle, error) {
	var backends []deadlock.Backend
	for _, c := range clients {
		backends = append(backends, inspected{c})
	}
	return deadlock.Find(ctx, backends)
}

func deadlockOf(c deadlock.Cycle) (d Deadlock) {
	for _, w := range c {
		at := w.At.(inspected)
		by := at.c.inspect(driver.Queue{Members: []driver.Member{w.By}, Read: w.Queue.Read})
		b := Blocked{
			Client: at.c, Name: w.Record.Queue, Kind: oneline.Cut(w.Queue.Kind, driver.MaxOwner), Units: w.Units,
			Outside: !at.Names(w.Record.Queue), Owner: oneline.Cut(w.Owner, driver.MaxOwner), Note: w.Note, Since: dated(w.Since),
			By: append(by.Holders, by.Waiters...)[0],
		}
		if !b.Outside {
			b.Name = strings.TrimPrefix(b.Name, at.c.cfg.prefix)
		}
		d.Waits = append(d.Waits, b)
	}
	return d
}

// inspected is a client as the search for deadlocks sees it.
type inspected struct{ c *Client }

func (i inspected) Queues(ctx context.Context, prefix string) (all []driver.Queue, err error) {
	err = cell{c: i.c}.retry(ctx, func(ctx context.Context) error {
		all = nil
		for q, err := range i.c.e.Driver().Queues(ctx, prefix) {
			if err != nil {
				return err
			}
			all = append(all, q)
		}
		return nil
	})
	return all, err
}

func (i inspected) Look(ctx context.Context, queue string) (driver.Queue, error) {
	return cell{c: i.c, key: queue}.look(ctx)
}

func (i inspected) Revoke(ctx context.Context, queue, id string) error {
	err := cell{c: i.c}.request(ctx, func(ctx context.Context) error {
		return i.c.e.Driver().Ask(ctx, queue, id, driver.Revoke)
	})
	if engine.IsGone(err) {
		return nil
	}
	return err
}

func (i inspected) Names(queue string) bool {
	name, within := strings.CutPrefix(queue, i.c.cfg.prefix)
	return within && name != ""
}

// inDeadlock is the ErrDeadlock of a wait that fails so that the others of a deadlock go on.
type inDeadlock struct{ Deadlock }

func (b *inDeadlock) Error() string { return "deadlock: " + b.Deadlock.String() }
func (b *inDeadlock) Unwrap() error { return ErrDeadlock }

// BeginWait is called when a wait begins, of a ticket, or of a goroutine that waits for another one's ticket. The
// context that it returns ends with ctx, or when the wait is to fail, and its cause is what it fails with. over is
// called when the wait has ended.
func (h holding) BeginWait(ctx context.Context, ticket string) (step context.Context, over func()) {
	if !keepsOut(ctx) {
		return ctx, func() {}
	}
	l, c := &h.lock.cfg, h.lock.c
	w := &deadlock.Waiter{
		Record: deadlock.Record{ID: engine.NewID(), Queue: l.Queue, Units: l.Units, Ticket: ticket, TTL: c.TTL(), Note: oneline.Cut(l.Note, record.MostOfNote)},
		Holds:  func() []string { return stillHeld(ctx) },
		Keep: func(ctx context.Context, queue string, note func(int) []byte) {
			c.e.KeepRecord(ctx, l.Name, queue, note)
		},
	}
	if l.breaks != nil {
		clients := append([]*Client{c}, l.breaks...)
		w.Find = func(ctx context.Context) ([]deadlock.Cycle, error) { return findCycles(ctx, clients) }
		w.Failed = func(c deadlock.Cycle) error { return &inDeadlock{deadlockOf(c)} }
	}
	return w.Begin(ctx, c.e.Context(), func(f func()) { c.e.Background(f) })
}

// keepsOut reports whether a wait with ctx can keep others waiting for ever: its caller holds something, and nothing
// is known to end it. As a deadline does, the end of a lease ends the context that carries it: one with a fixed end
// is a time limit of the wait.
func keepsOut(ctx context.Context) bool {
	if _, ends := ctx.Deadline(); ends {
		return false
	}
	holds := len(parentjob.Tickets(ctx)) > 0
	for s := range carried(ctx) {
		if s.held.Fixed() && s.Err() == nil {
			return false
		}
		holds = true
	}
	return holds
}

// stillHeld are the tickets of the leases that ctx carries, innermost first, and that have not ended. One
// that has ended is not among them when anybody else can have the lock.
func stillHeld(ctx context.Context) (tickets []string) {
	for s := range carried(ctx) {
		if s.Err() == nil && !slices.Contains(tickets, s.held.Ticket()) {
			tickets = append(tickets, s.held.Ticket())
		}
	}
	return append(tickets, parentjob.Tickets(ctx)...)
}
