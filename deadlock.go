package interlock

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
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

	id     string
	breaks bool
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
		fmt.Fprintf(&b, "%s waits for %s, which %s %s", printable(w.Owner), printable(w.Name), holds, printable(w.By.Owner))
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
	found, err := findDeadlocks(ctx, clients)
	return found, failed("find deadlocks", "", err)
}

func findDeadlocks(ctx context.Context, clients []*Client) ([]Deadlock, error) {
	told, err := readWaits(ctx, clients)
	if err != nil {
		return nil, err
	}
	first, err := told.queues(ctx)
	if err != nil {
		return nil, err
	}
	suspects := told.stuck(first)
	if len(suspects) == 0 {
		return nil, nil
	}
	if suspects, err = suspects.confirm(ctx, first); err != nil {
		return nil, err
	}
	second, err := suspects.queues(ctx)
	if err != nil {
		return nil, err
	}
	both := standing(first, second)
	return suspects.stuck(both).cycles(both), nil
}

func (w *told) blocked(q driver.Queue, by driver.Member) Blocked {
	shown := w.c.queue(driver.Queue{Members: []driver.Member{by}, Read: q.Read})
	name, outside := w.name()
	return Blocked{
		Client: w.c, Name: name, Outside: outside, Kind: cut(q.Kind, driver.MaxOwner), Units: w.Units,
		Owner: w.owner, Note: w.Note, Since: dated(w.Since), By: append(shown.Holders, shown.Waiters...)[0],
		id: w.ID, breaks: w.Breaks,
	}
}

func (b Blocked) older(o Blocked) int {
	return cmp.Or(b.Since.Compare(o.Since), cmp.Compare(b.id, o.id))
}
