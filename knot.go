package interlock

import (
	"cmp"
	"maps"
	"slices"

	"github.com/interlock-go/interlock/driver"
)

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

// blockers are tickets in front of a wait that is stuck, as many of those that stay as keep it out. Whoever
// waits without a ticket of its own is known to be behind what is held.
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
