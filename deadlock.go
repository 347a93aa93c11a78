package interlock

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
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
	Owner  string
	Note   string    // of the lock that is waited for, as given with Note
	Since  time.Time // by the clock of the waiter

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
// acquired by any clients. Two clients of one backend count once.
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
//   - A wait with a time limit (a deadline of its context, or [Wait]) is in no deadlock, since it ends. A lease of
//     [Hold], or one that [AtLeast] keeps, holds up nobody for ever.
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

// told is a wait, as its last record tells of it.
type told struct {
	waitRecord
	c      *Client // that has read it
	in     string  // the queue of the record
	record string  // the ID of its ticket
	owner  string
}

// place is a queue of a backend.
type place struct {
	c     *Client
	queue string
}

func (w *told) place() place { return place{w.c, w.Queue} }

// waits are those of some clients, by their IDs.
type waits map[string]*told

// readWaits reads all records of waits.
func readWaits(ctx context.Context, clients []*Client) (waits, error) {
	all := waits{}
	for _, c := range clients {
		err := cell{c: c}.retry(ctx, func(ctx context.Context) error {
			for q, err := range c.d.Queues(ctx, waitPrefix) {
				if err != nil {
					return err
				}
				for _, m := range q.Members {
					all.add(c, q.Name, m)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (all waits) add(c *Client, in string, m driver.Member) {
	w := told{c: c, in: in, record: m.ID, owner: cut(m.Owner, driver.MaxOwner)}
	if json.Unmarshal(m.Note, &w.waitRecord) != nil || beside(waitPrefix, w.Queue) != in || driver.CheckName(w.Queue) != nil || driver.CheckID(w.ID) != nil || w.Units < 1 {
		return // nobody of this package has written it
	}
	if known := all[w.ID]; known == nil || known.Number < w.Number {
		all[w.ID] = &w
	}
}

// queues reads all queues that are waited for.
func (all waits) queues(ctx context.Context) (map[place]driver.Queue, error) {
	read := map[place]driver.Queue{}
	for _, w := range all {
		if _, ok := read[w.place()]; ok {
			continue
		}
		q, err := cell{c: w.c, key: w.Queue}.look(ctx)
		if err != nil {
			return nil, err
		}
		read[w.place()] = q
	}
	return read, nil
}

// standing is what has stood from one reading to the next: tickets that wait in both, or are held in
// both, for an ID is never used twice, and a ticket that is held never waits again.
func standing(first, second map[place]driver.Queue) map[place]driver.Queue {
	both := map[place]driver.Queue{}
	for at, q := range second {
		was := map[string]bool{}
		for _, m := range first[at].Members {
			was[m.ID] = m.Held
		}
		q.Capacity = max(q.Capacity, first[at].Capacity)
		q.Members = slices.DeleteFunc(slices.Clone(q.Members), func(m driver.Member) bool {
			held, stood := was[m.ID]
			return !stood || held != m.Held
		})
		both[at] = q
	}
	return both
}

// knot is waits and the queues that they wait in.
type knot struct {
	waits  waits
	queues map[place]driver.Queue
	held   map[string]int  // by how many of the waits, by ticket
	inLine map[string]bool // tickets of the waits
}

func (all waits) knot(queues map[place]driver.Queue) *knot {
	k := &knot{maps.Clone(all), queues, map[string]int{}, map[string]bool{}}
	for _, w := range all {
		k.inLine[w.Ticket] = true
		for _, id := range w.Holds {
			k.held[id]++
		}
	}
	return k
}

func (k *knot) remove(w *told) {
	delete(k.waits, w.ID)
	delete(k.inLine, w.Ticket)
	for _, id := range w.Holds {
		k.held[id]--
	}
}

// stuck returns the waits that can never be served: what can be served is taken away, together with
// what it holds, again and again, until nothing more can.
func (all waits) stuck(queues map[place]driver.Queue) waits {
	k := all.knot(queues)
	for served := true; served; {
		served = false
		in := map[place][]*told{}
		for _, w := range k.waits {
			in[w.place()] = append(in[w.place()], w)
		}
		for at, waits := range in {
			served = k.serve(queues[at], waits) || served
		}
	}
	return k.waits
}

// serve takes away the waits of a queue that can be served. It walks along the queue once, from the front, since
// there may be very many.
func (k *knot) serve(q driver.Queue, waits []*told) (served bool) {
	line := map[string][]*told{} // the waits that have tickets there
	for _, w := range waits {
		line[w.Ticket] = append(line[w.Ticket], w)
	}
	front := int64(0) // units that do not leave
	serve := func(w *told) {
		if front == 0 || front+w.Units <= q.Capacity {
			k.remove(w)
			served = true
		}
	}
	for _, m := range q.Members {
		if m.Held && k.stays(m) {
			front = min(front+m.Units, q.Capacity)
		}
	}
	held := front
	for _, m := range q.Members {
		own := line[m.ID]
		delete(line, m.ID)
		if m.Held {
			for _, w := range own { // it has the lock, and does not know it yet
				k.remove(w)
				served = true
			}
			continue
		}
		for _, w := range own {
			serve(w)
		}
		if k.stays(m) {
			front = min(front+m.Units, q.Capacity)
		}
	}
	front = held
	for _, waits := range line { // in lines of their processes
		for _, w := range waits {
			serve(w)
		}
	}
	return served
}

// stays reports whether a ticket does not leave as long as the waits of the knot last.
func (k *knot) stays(m driver.Member) bool {
	if m.Held {
		return k.held[m.ID] > 0 && !m.Fixed
	}
	return k.inLine[m.ID]
}

// blockers are tickets in front of a wait that is stuck, as many of those that stay as keep it out. Whoever waits without a ticket
// of its own is known to be behind what is held.
func (k *knot) blockers(w *told) (front []driver.Member) {
	q := k.queues[w.place()]
	own := slices.IndexFunc(q.Members, func(m driver.Member) bool { return m.ID == w.Ticket })
	units := w.Units
	for i, m := range q.Members {
		if k.stays(m) && (m.Held || i < own) && units <= q.Capacity {
			front = append(front, m)
			units += m.Units
		}
	}
	return front
}

// keeps reports whether a ticket does not leave as long as w lasts.
func (w *told) keeps(m driver.Member) bool {
	if m.Held {
		return slices.Contains(w.Holds, m.ID)
	}
	return m.ID == w.Ticket
}

// older orders waits, in the same way for all who look.
func older(a, b *told) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) }

// cycles goes from each of the waits to one that keeps it waiting, and on from there, until it comes
// back to where it was. All of them are stuck.
func (all waits) cycles(queues map[place]driver.Queue) (found []Deadlock) {
	k := all.knot(queues)
	sorted := slices.SortedFunc(maps.Values(all), older)
	walks := map[string]int{} // that came to a wait first
	for i, w := range sorted {
		var path []Blocked
		at := map[string]int{} // in the path
		for walks[w.ID] == 0 {
			walks[w.ID], at[w.ID] = i+1, len(path)
			next, by := k.next(w, sorted)
			path = append(path, w.blocked(queues[w.place()], by))
			w = next
		}
		if walks[w.ID] == i+1 { // else this walk has come to an earlier one
			found = append(found, cycle(path[at[w.ID]:]))
		}
	}
	slices.SortFunc(found, func(a, b Deadlock) int { return a.Waits[0].older(b.Waits[0]) })
	return found
}

// next is the oldest wait that keeps the largest ticket in front of w, and that ticket. It is another
// wait than w, unless w waits for itself alone.
func (k *knot) next(w *told, sorted []*told) (*told, driver.Member) {
	front := k.blockers(w)
	slices.SortStableFunc(front, func(a, b driver.Member) int { return cmp.Compare(b.Units, a.Units) })
	for _, m := range front {
		for _, o := range sorted {
			if o != w && o.keeps(m) {
				return o, m
			}
		}
	}
	return w, front[0]
}

// cycle begins with the oldest wait.
func cycle(path []Blocked) Deadlock {
	first := 0
	for i, b := range path {
		if b.older(path[first]) < 0 {
			first = i
		}
	}
	return Deadlock{slices.Concat(path[first:], path[:first])}
}

func (w *told) blocked(q driver.Queue, by driver.Member) Blocked {
	shown := w.c.queue(driver.Queue{Members: []driver.Member{by}, Read: q.Read})
	return Blocked{
		Client: w.c, Name: strings.TrimPrefix(w.Queue, w.c.cfg.prefix), Kind: cut(q.Kind, driver.MaxOwner), Units: w.Units,
		Owner: w.owner, Note: w.Note, Since: dated(w.Since), By: append(shown.Holders, shown.Waiters...)[0],
		id: w.ID, breaks: w.Breaks,
	}
}

func (b Blocked) older(o Blocked) int {
	return cmp.Or(b.Since.Compare(o.Since), cmp.Compare(b.id, o.id))
}

// confirm asks the suspects whether they still wait, and returns those that do, and are stuck: all of
// them waited at the moment at which confirm was called. The first record that comes from a wait after
// that may have been on its way since before. The second one was made when the first had arrived.
func (suspects waits) confirm(ctx context.Context, first map[place]driver.Queue) (waits, error) {
	base, err := suspects.again(ctx)
	if err != nil {
		return nil, err
	}
	limit := time.Now().Add(base.patience())
	asked := map[string]bool{} // by the ticket of the record
	b := backoff.Backoff{Most: 200 * time.Millisecond}
	for now := base; ; {
		now = now.stuck(first)
		silent := maps.Clone(now)
		maps.DeleteFunc(silent, func(id string, w *told) bool { return w.Number >= base[id].Number+answers })
		switch {
		case len(silent) == 0:
			return now, nil
		case time.Now().After(limit):
			maps.DeleteFunc(now, func(id string, _ *told) bool { return silent[id] != nil })
			return now.stuck(first), nil
		}
		for _, w := range silent {
			if asked[w.record] {
				continue
			}
			asked[w.record] = true
			if err := w.ask(ctx); err != nil {
				return nil, err
			}
		}
		if err := b.Sleep(ctx); err != nil {
			return nil, err
		}
		if now, err = now.again(ctx); err != nil {
			return nil, err
		}
	}
}

// answers is how many records have to come from a suspect.
const answers = 2

// patience is how long the suspects have for their answers. Where a backend sends no signals at once, each
// answer takes up to a third of the TTL.
func (suspects waits) patience() (d time.Duration) {
	for _, w := range suspects {
		d = max(d, min(w.TTL, time.Minute))
	}
	return d + time.Second
}

// again reads the last records of these waits; those that are over are left out.
func (suspects waits) again(ctx context.Context) (waits, error) {
	read := map[place]bool{}
	now := waits{}
	for _, w := range suspects {
		at := place{w.c, w.in}
		if read[at] {
			continue
		}
		read[at] = true
		q, err := cell{c: w.c, key: w.in}.look(ctx)
		if err != nil {
			return nil, err
		}
		for _, m := range q.Members {
			now.add(w.c, w.in, m)
		}
	}
	maps.DeleteFunc(now, func(id string, _ *told) bool { return suspects[id] == nil })
	for id, w := range now {
		w.c = suspects[id].c
	}
	return now, nil
}

// ask has the waiter make another record.
func (w *told) ask(ctx context.Context) error {
	return cell{c: w.c}.retry(ctx, func(ctx context.Context) error {
		call := w.c.call(ctx)
		defer call.release()
		err := w.c.d.Ask(call, w.in, w.record, driver.Revoke)
		if isGone(err) {
			return nil // there is another one, or the wait is over
		}
		return err
	})
}
