package deadlock

import (
	"cmp"
	"maps"
	"slices"

	"github.com/interlock-go/interlock/driver"
)

// graph is waits and the queues that they wait in.
type graph struct {
	waits  waits
	queues map[queueRef]driver.Queue
	held   map[string]int  // by how many of the waits, by ticket
	inLine map[string]bool // tickets of the waits
}

func (all waits) graph(queues map[queueRef]driver.Queue) *graph {
	g := &graph{maps.Clone(all), queues, map[string]int{}, map[string]bool{}}
	for _, w := range all {
		g.inLine[w.Ticket] = true
		for _, id := range w.Holds {
			g.held[id]++
		}
	}
	return g
}

func (g *graph) remove(w *Wait) {
	delete(g.waits, w.ID)
	delete(g.inLine, w.Ticket)
	for _, id := range w.Holds {
		g.held[id]--
	}
}

// stuck returns the waits that can never be served: what can be served is taken away, together with
// what it holds, again and again, until nothing more can.
func (all waits) stuck(queues map[queueRef]driver.Queue) waits {
	g := all.graph(queues)
	for served := true; served; {
		served = false
		in := map[queueRef][]*Wait{}
		for _, w := range g.waits {
			in[w.queue()] = append(in[w.queue()], w)
		}
		for at, waits := range in {
			served = g.serve(queues[at], waits) || served
		}
	}
	return g.waits
}

// serve takes away the waits of a queue that can be served. It walks along the queue once, from the front, since
// there may be very many.
func (g *graph) serve(q driver.Queue, waits []*Wait) (served bool) {
	line := map[string][]*Wait{} // the waits that have tickets there
	for _, w := range waits {
		line[w.Ticket] = append(line[w.Ticket], w)
	}
	front := int64(0) // units that do not leave
	serve := func(w *Wait) {
		if front == 0 || front+w.Units <= q.Capacity {
			g.remove(w)
			served = true
		}
	}
	for _, m := range q.Members {
		if m.Held && g.stays(m) {
			front = min(front+m.Units, q.Capacity)
		}
	}
	held := front
	for _, m := range q.Members {
		own := line[m.ID]
		delete(line, m.ID)
		if m.Held {
			for _, w := range own { // it has the lock, and does not know it yet
				g.remove(w)
				served = true
			}
			continue
		}
		for _, w := range own {
			serve(w)
		}
		if g.stays(m) {
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

// stays reports whether a ticket does not leave as long as the waits of the graph last.
func (g *graph) stays(m driver.Member) bool {
	if m.Held {
		return g.held[m.ID] > 0 && !m.Fixed
	}
	return g.inLine[m.ID]
}

// blockers are tickets in front of a wait that is stuck, as many of those that stay as keep it out. Whoever
// waits without a ticket of its own is known to be behind what is held.
func (g *graph) blockers(w *Wait) (front []driver.Member) {
	q := g.queues[w.queue()]
	own := slices.IndexFunc(q.Members, func(m driver.Member) bool { return m.ID == w.Ticket })
	units := w.Units
	for i, m := range q.Members {
		if g.stays(m) && (m.Held || i < own) && units <= q.Capacity {
			front = append(front, m)
			units += m.Units
		}
	}
	return front
}

// keeps reports whether a ticket does not leave as long as w lasts.
func (w *Wait) keeps(m driver.Member) bool {
	if m.Held {
		return slices.Contains(w.Holds, m.ID)
	}
	return m.ID == w.Ticket
}

// older orders waits, in the same way for all who look.
func older(a, b *Wait) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) }

// Cycle is a deadlock.
type Cycle []Blocked

// Blocked is a wait of a Cycle.
type Blocked struct {
	*Wait
	Queue driver.Queue  // that it waits in, as it was read
	By    driver.Member // it keeps the wait waiting: a ticket that the next wait holds, or its place in front
}

// cycles goes from each of the waits to one that keeps it waiting, and on from there, until it comes
// back to where it was. All of them are stuck.
func (all waits) cycles(queues map[queueRef]driver.Queue) (found []Cycle) {
	g := all.graph(queues)
	sorted := slices.SortedFunc(maps.Values(all), older)
	walks := map[string]int{} // that came to a wait first
	for i, w := range sorted {
		var path Cycle
		at := map[string]int{} // in the path
		for walks[w.ID] == 0 {
			walks[w.ID], at[w.ID] = i+1, len(path)
			next, by := g.next(w, sorted)
			path = append(path, Blocked{w, queues[w.queue()], by})
			w = next
		}
		if walks[w.ID] == i+1 { // else this walk has come to an earlier one
			found = append(found, path[at[w.ID]:].fromOldest())
		}
	}
	slices.SortFunc(found, func(a, b Cycle) int { return older(a[0].Wait, b[0].Wait) })
	return found
}

// next is the oldest wait that keeps the largest ticket in front of w, and that ticket. It is another
// wait than w, unless w waits for itself alone.
func (g *graph) next(w *Wait, sorted []*Wait) (*Wait, driver.Member) {
	front := g.blockers(w)
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

// fromOldest is the same cycle, beginning with its oldest wait.
func (c Cycle) fromOldest() Cycle {
	first := 0
	for i, b := range c {
		if older(b.Wait, c[first].Wait) < 0 {
			first = i
		}
	}
	return slices.Concat(c[first:], c[:first])
}

// younger is how many waits of those that break deadlocks began after this one; false if it is none of them.
func (c Cycle) younger(id string) (n int, has bool) {
	at := slices.IndexFunc(c, func(b Blocked) bool { return b.ID == id })
	if at < 0 || !c[at].Breaks {
		return 0, false
	}
	for _, b := range c {
		if b.Breaks && older(b.Wait, c[at].Wait) > 0 {
			n++
		}
	}
	return n, true
}
