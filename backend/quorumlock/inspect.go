package quorumlock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
)

// ticketOf finds the ID of the ticket that a place belongs to, and the ticket's own note. A place that no
// quorum has made counts as a ticket of its own.
func ticketOf(m driver.Member) (id string, note []byte, ok bool) {
	first, rest, found := bytes.Cut(m.Note, []byte(" "))
	if !found || driver.CheckID(string(first)) != nil {
		return m.ID, m.Note, false
	}
	return string(first), rest, true
}

// part is what one member has said about a queue.
type part struct {
	driver.Queue
	life string // its place among the members
}

// merge makes one queue of those of the members. nil stands for a member that has not answered. Waiters have the order
// of their lines. A member where one does not wait says nothing about that: a new one can have a place there for a
// moment, while others wait at their line.
func (d *Driver) merge(name string, queues []*part) driver.Queue {
	type found struct {
		driver.Member
		held, order int
		line        string          // the life of the member where it waits, "" if it does at none
		first       bool            // it has a place at the first member
		left        []time.Duration // of the places that are held
		at          []string        // the members that have these
	}
	q := driver.Queue{Name: name}
	var all []*found
	byID := map[string]*found{}
	silent, first := 0, ""
	for _, part := range queues {
		if part != nil && len(part.Members) > 0 && (first == "" || part.life < first) {
			first = part.life
		}
	}
	for i, part := range queues {
		if part == nil {
			silent++
			continue
		}
		if q.Read == 0 || part.Read < q.Read {
			q.Read = part.Read
		}
		if part.Kind != "" {
			q.Kind, q.Capacity = part.Kind, part.Capacity
		}
		for order, m := range part.Members {
			id, note, _ := ticketOf(m)
			f := byID[id]
			if f == nil {
				f = &found{Member: m}
				f.ID, f.Note, f.Held, f.Token = id, bytes.Clone(note), false, 0
				byID[id] = f
				all = append(all, f)
			}
			f.first = f.first || part.life == first
			if !m.Held && part.life >= f.line {
				f.line, f.order = part.life, order
			}
			f.Units = min(f.Units, m.Units)
			f.Fixed = f.Fixed || m.Fixed
			f.Left = max(f.Left, m.Left)
			if m.Since.Before(f.Since) {
				f.Since = m.Since
			}
			if m.Held {
				f.held++
				f.left, f.at = append(f.left, m.Left), append(f.at, d.members[i].name)
				exclusive := m.Units == part.Capacity
				if f.Token == 0 || exclusive == (m.Token > f.Token) {
					f.Token = m.Token
				}
			}
		}
	}
	for _, f := range all {
		f.Held = f.held >= d.majority || f.held > 0 && f.held+silent >= d.majority && f.held > (len(queues)-silent)/2
		if !f.Held {
			f.Token, f.Fixed, f.At = 0, false, strings.Join(f.at, ", ")
			continue
		}
		// It stands as long as a majority of its places does. A member that has missed a Keep has another end.
		slices.Sort(f.left)
		f.Left = f.left[max(0, len(f.left)-d.majority)]
	}
	slices.SortStableFunc(all, func(a, b *found) int {
		switch {
		case a.Held != b.Held:
			return b2i(b.Held) - b2i(a.Held)
		case a.Held: // it may have joined again at a member, behind others
			return a.Since.Compare(b.Since)
		}
		return cmp.Or(b2i(b.line == "" && b.first)-b2i(a.line == "" && a.first), cmp.Compare(b.line, a.line), a.order-b.order)
	})
	for _, f := range all {
		q.Members = append(q.Members, f.Member)
	}
	q.Version = version(q)
	return q
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// version tells states apart by what they show. Behind a hash it has the fixed ends, in milliseconds: see same.
func version(q driver.Queue) string {
	if len(q.Members) == 0 {
		return "empty"
	}
	h := fnv.New64a()
	write := func(s string) { h.Write([]byte(s)); h.Write([]byte{0}) }
	ends := ""
	write(string(q.Kind))
	write(strconv.FormatInt(q.Capacity, 10))
	for _, m := range q.Members {
		write(m.ID)
		write(strconv.FormatInt(m.Units, 10))
		write(strconv.FormatUint(m.Token, 10))
		write(strconv.FormatBool(m.Fixed))
		if m.Fixed {
			ends += "." + strconv.FormatInt((time.Duration(q.Read)+m.Left).Milliseconds(), 10)
		}
	}
	return strconv.FormatUint(h.Sum64(), 36) + ends
}

// same: two versions are of one state. Its fixed ends differ by less than a tenth of a second, since members
// round, and answer at different times.
func same(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	if len(x) != len(y) || x[0] != y[0] {
		return false
	}
	for i := range x[1:] {
		p, wrongP := strconv.ParseInt(x[i+1], 10, 64)
		q, wrongQ := strconv.ParseInt(y[i+1], 10, 64)
		if wrongP != nil || wrongQ != nil || max(p-q, q-p) >= 100 {
			return false
		}
	}
	return true
}

// read reads a queue of all members.
func (d *Driver) read(ctx context.Context, queue string) (driver.Queue, []answer[part], error) {
	all := ask(ctx, d, inspection, func(ctx context.Context, m driver.Driver) (p part, err error) {
		now := d.now()
		p.Queue, err = m.Follow(ctx, queue, "")
		p.Read = now
		if err == nil && len(p.Members) > 0 {
			p.life, _ = lifeOf(ctx, m)
		}
		return p, err
	})
	if err := enough(ctx, d, all); err != nil {
		return driver.Queue{}, nil, err
	}
	parts := make([]*part, len(all))
	for i := range all {
		if all[i].err == nil {
			parts[i] = &all[i].got
		}
	}
	return d.merge(queue, parts), all, nil
}

// again is after what time Follow looks, whatever it has heard: a member that did not answer may do so.
const again = 15 * time.Second

func (d *Driver) Follow(ctx context.Context, queue, after string) (driver.Queue, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	for {
		q, all, err := d.read(ctx, queue)
		switch {
		case d.usable(ctx) != nil:
			return driver.Queue{}, d.usable(ctx)
		case err != nil && (after == "" || driver.IsPermanent(err)):
			return driver.Queue{}, err
		case err == nil && !same(q.Version, after):
			return q, nil
		case err != nil:
			_ = backoff.Sleep(ctx, time.Second)
			continue
		}
		d.untilChanged(ctx, queue, all)
	}
}

// untilChanged returns when the queue of a member differs from what it has answered.
func (d *Driver) untilChanged(ctx context.Context, queue string, all []answer[part]) {
	ctx, cancel := context.WithTimeout(ctx, again)
	defer cancel()
	told := make(chan struct{}, len(all))
	calls := 0
	for _, a := range all {
		if a.err != nil {
			continue
		}
		calls++
		d.background(func() {
			if _, err := a.d.Follow(ctx, queue, a.got.Version); err != nil && ctx.Err() == nil {
				_ = backoff.Sleep(ctx, time.Second)
			}
			told <- struct{}{}
		})
	}
	select {
	case <-told:
	case <-ctx.Done():
	}
}

func (d *Driver) Queues(ctx context.Context, prefix string) iter.Seq2[driver.Queue, error] {
	return func(yield func(driver.Queue, error) bool) {
		all := ask(ctx, d, 5*inspection, func(ctx context.Context, m driver.Driver) (map[string]part, error) {
			found := map[string]part{}
			life, _ := lifeOf(ctx, m)
			for q, err := range m.Queues(ctx, prefix) {
				if err != nil {
					return nil, err
				}
				if !strings.HasPrefix(q.Name, ownQueues) {
					found[q.Name] = part{q, life}
				}
			}
			return found, nil
		})
		if err := enough(ctx, d, all); err != nil {
			yield(driver.Queue{}, err)
			return
		}
		names := map[string]bool{}
		for _, a := range all {
			for name := range a.got {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			parts := make([]*part, len(all))
			for i, a := range all {
				if a.err != nil {
					continue
				}
				p := a.got[name]
				if p.Read != 0 { // by the clock of the member
					p.Read = d.now().Add(-max(0, a.d.Now().Sub(p.Read)))
				}
				parts[i] = &p
			}
			if q := d.merge(name, parts); !yield(q, nil) {
				return
			}
		}
	}
}

// places are those of one ticket, by member.
func placesOf(all []answer[part], id string) []driver.Member {
	found := make([]driver.Member, len(all))
	for i, a := range all {
		for _, m := range a.got.Members {
			if of, _, _ := ticketOf(m); of == id {
				found[i] = m
			}
		}
	}
	return found
}

// Ask reads the queue for the places of the ticket. A ticket that is removed may have joined at further
// members since, so it is looked for again.
func (d *Driver) Ask(ctx context.Context, queue, id string, what driver.Demand) error {
	took, err := d.askOnce(ctx, queue, id, what)
	for n := 0; n < 3 && err == nil && took && what == driver.Force; n++ {
		var again bool
		if again, err = d.askOnce(ctx, queue, id, what); !again {
			break
		}
	}
	if err == nil && !took {
		return driver.ErrGone
	}
	return err
}

func (d *Driver) askOnce(ctx context.Context, queue, id string, what driver.Demand) (took bool, err error) {
	_, read, err := d.read(ctx, queue)
	if err != nil {
		return false, err
	}
	places := placesOf(read, id)
	var failed error
	unsure := 0 // places that may still stand
	for i, a := range ask(ctx, d, inspection, func(ctx context.Context, m driver.Driver) (bool, error) {
		for i, a := range read {
			if a.d == m && places[i].ID != "" {
				err := m.Ask(ctx, queue, places[i].ID, what)
				return err == nil, err
			}
		}
		return false, nil
	}) {
		took = took || a.got
		switch {
		case a.err != nil && !errors.Is(a.err, driver.ErrGone):
			failed = a.err
			unsure++
		case read[i].err != nil:
			unsure++
		}
	}
	// One member tells the holder of a wish, but a ticket stands until it has lost its majority.
	if took && (what != driver.Force || unsure < d.majority) {
		failed = nil
	}
	return took, failed
}

func (d *Driver) Raise(ctx context.Context, queue string, floor uint64) error {
	all := ask(ctx, d, inspection, func(ctx context.Context, m driver.Driver) (struct{}, error) {
		return struct{}{}, m.Raise(ctx, queue, floor)
	})
	if err := agreed(d, all, driver.ErrInvalid); err != nil {
		return err
	}
	return enough(ctx, d, all)
}

// Resize is refused, as semaphores of several permits are. A minority that missed the change would go on with
// the old capacity.
func (d *Driver) Resize(ctx context.Context, _ string, _ int64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return driver.Permanent(fmt.Errorf("quorum: has no semaphores whose number of permits could be changed: keep them on one backend: %w", errors.ErrUnsupported))
}

// findAny finds a ticket of this session, or one of another that has a fixed end. ErrGone if a majority does
// not have it, even if all those have it that do not answer.
func (s *session) findAny(ctx context.Context, tk driver.Ticket) (*ticket, error) {
	if t := s.find(tk); t != nil {
		return t, nil
	}
	q, all, err := s.d.read(ctx, tk.Queue)
	if err != nil {
		return nil, err
	}
	places := placesOf(all, tk.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tickets[tk.ID]; t != nil {
		return t, nil
	}
	t := s.newTicket(driver.Request{ID: tk.ID, Queue: tk.Queue, Kind: q.Kind, Capacity: q.Capacity, Units: 1})
	t.foreign, t.state = true, held
	n := 0
	for i, m := range places {
		if !m.Held || !m.Fixed {
			continue
		}
		n++
		t.hold = max(t.hold, m.Left)
		t.token = max(t.token, m.Token)
		t.places[i] = place{state: granted, verified: true, id: m.ID, at: s.links[i].at, units: m.Units, token: m.Token, hold: m.Left, end: all[i].got.Read.Add(m.Left)}
	}
	if n < s.d.majority {
		t.stop()
		if why := failures(all); n+len(why) >= s.d.majority {
			return nil, fmt.Errorf("quorum: %d of %d members have the ticket, and those do not answer that may have it: %s", n, len(all), strings.Join(why, "; "))
		}
		return nil, driver.ErrGone
	}
	for i := range t.places {
		if id := t.places[i].id; id != "" {
			s.placed[id] = t
		}
	}
	s.tickets[tk.ID] = t
	return t, nil
}
