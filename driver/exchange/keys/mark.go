package keys

import "github.com/interlock-go/interlock/driver"

// Mark names the last exclusive holder of a queue, unless that has left cleanly. A holder that reports deaths writes it
// with its grant.
type Mark struct {
	ID        string `json:"id"`
	Inherited bool   `json:"inherited,omitempty"` // by the ticket itself
	Changed   int64  `json:"-"`                   // a version, by the backend; 0: there is none
}

// Inherits: the holder with this ID does.
func (m Mark) Inherits(id string) bool { return m.Changed != 0 && (m.ID != id || m.Inherited) }

// By is the mark that a holder writes.
func (m Mark) By(id string) Mark { return Mark{ID: id, Inherited: m.Changed != 0} }

// MarkFor is the mark for a key that is granted. A mark of one that stands beside it says nothing of a death: it had
// all permits when they were fewer.
func (l *Line[T]) MarkFor(m Mark, id string) Mark {
	if _, stands := l.Find(m.ID); stands {
		m.ID = id
	}
	return m
}

// Heir finds out whether a ticket inherits where the mark is the order of the last exclusive holder that has left
// cleanly; 0: there was none. Orders are numbers without gaps there, from 1. It learns from each line in which the
// ticket stands.
type Heir struct {
	Based        bool // it has learned a mark, or that the holder in front left cleanly
	inherits     bool
	last, former int64 // exclusive keys that were seen in front; 0: none
}

// Sees notes a line. Of places that a waiter had, it knows which holder was the last one.
func Sees[T Keyed](h *Heir, p *Place[T]) {
	permits, nearest := p.line.Permits(), int64(0)
	stands := false
	for _, o := range p.Before {
		if k := o.key(); needsAll(k, permits) {
			nearest = k.Order
		}
	}
	for _, o := range p.line.Keys {
		stands = stands || o.key().Order == h.last
	}
	switch {
	case nearest != 0:
		if p.of.Kind == driver.Semaphore && h.last != 0 && !stands {
			h.former = h.last
		}
		h.last = nearest
	case len(p.Before) > 0 && p.Before[0].key().Order < h.last: // it left while it waited
		h.last = 0
	}
}

// Inherits says whether the ticket does, by the mark. It is called for a waiter once, and with the grant. Gaps is how
// many orders between the mark and the key are of no keys.
func Inherits[T Keyed](h *Heir, p *Place[T], mark, gaps int64) bool {
	if !h.Based { // the keys between it and the mark that are gone may have been holders
		h.Based, h.inherits = true, p.of.Order-mark-1-gaps > int64(len(p.Before))
	}
	if h.last == 0 || !p.Held {
		return h.inherits
	}
	last := h.last
	for _, o := range p.Before {
		if o.key().Order == last {
			last = h.former // a holder beside this ticket is not the last that had all there was
			break
		}
	}
	if last != 0 {
		h.inherits = mark != last
	}
	return h.inherits
}

// Clean notes that the holder in front has left, and was the last one to do so cleanly: then it was the last one.
func (h *Heir) Clean() { h.Based, h.inherits = true, false }
