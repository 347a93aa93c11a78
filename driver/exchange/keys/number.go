package keys

import (
	"cmp"

	"github.com/interlock-go/interlock/driver"
)

// Number is a number of permits that was set for a queue.
//
// Holders stand in front of all others, also when the number has been lowered. So one order says who was held when it
// was set. A Store finds that out before, and says which keys may have been granted meanwhile. Too little known is safe
// everywhere: each key counts in the sums of those behind it, and one that may be held is treated as a holder where
// something would be taken from it.
type Number struct {
	Permits int64 `json:"permits"`           // 0: none was set, or it is not known
	Set     int64 `json:"set,omitempty"`     // the order at which it was: who comes later is refused with another number
	Unset   bool  `json:"unset,omitempty"`   // it was taken back, and is in force as long as a key of permits stands that came before that
	Held    int64 `json:"held,omitempty"`    // keys up to this order are held
	Perhaps int64 `json:"perhaps,omitempty"` // further ones up to this order may be, if they came after Waited
	Waited  int64 `json:"waited,omitempty"`  // keys after Held up to this order are not held
}

// WrittenAt is called when a number was read that was written at that order. What was just set does not say when.
func (n *Number) WrittenAt(order int64) {
	if n.Permits > 0 && n.Set == 0 {
		n.Set, n.Perhaps = order, cmp.Or(n.Perhaps, order-1)
	}
}

// Sound: it can have been written at that order. One of another backend, whose keys were copied, can have later
// orders: by these all would be held.
func (n *Number) Sound(written int64) bool {
	return min(n.Held, n.Perhaps, n.Waited) >= 0 && max(n.Held, n.Perhaps) <= n.Set && n.Set <= written &&
		n.Permits >= min(n.Held, 1) && n.Permits <= driver.MaxCapacity // none was held by a number that is not known
}

// Permits is the number that is in force; 0: none is, and each key says it. Of a line whose first keys are not read it
// is, if it may be.
func (l *Line[T]) Permits() int64 {
	if l.Number.Permits == 0 || !l.Number.Unset {
		return l.Number.Permits
	}
	for _, t := range l.Keys {
		switch k := t.key(); {
		case k.Order > l.Number.Set:
			return 0
		case k.Kind == driver.Semaphore && !k.Foreign:
			return l.Number.Permits
		}
	}
	if l.Whole || l.UpTo >= l.Number.Set {
		return 0
	}
	return l.Number.Permits
}

// Perhaps: a key may be held although it does not fit: it is not known who was when the number was set.
func (l *Line[T]) Perhaps(t T) bool { return l.perhaps(t.key()) }

func (l *Line[T]) perhaps(k *Key) bool {
	return k.Order > max(l.Number.Held, l.Number.Waited) && k.Order <= l.Number.Perhaps
}

// Unfit: a key waits for more than there can be, or says another number than the one in force. It is to be removed.
func (l *Line[T]) Unfit(t T) bool {
	k, n := t.key(), l.Permits()
	return n > 0 && k.Order > l.Number.Held && !k.Stays && !l.perhaps(k) && !k.Foreign &&
		(l.intrudes(k, n) || k.Kind == driver.Semaphore && k.Units > n)
}

// Resize is the number that takes the place of the one that the queue keeps; permits is 0 to take that back. Its Set is
// not known yet, and who is held is to be found out. False: nothing is to be changed.
func (l *Line[T]) Resize(permits int64) (next Number, change bool, err error) {
	old := l.Number
	switch {
	case len(l.Keys) > 0 && (l.Keys[0].key().Kind != driver.Semaphore || l.Keys[0].key().Foreign):
		return old, false, driver.ErrMismatch
	case permits > 0:
		return Number{Permits: permits, Held: old.Held}, true, nil
	case old.Permits == 0, old.Unset && l.Permits() > 0: // it ends without that
		return old, false, nil
	case len(l.Keys) > 0 && l.Permits() > 0:
		return Number{Permits: old.Permits, Held: old.Held, Unset: true}, true, nil
	}
	return Number{}, true, nil // no key stands for which it is in force
}

// HeldNow completes a number. It is set in place of the one of the line, which is
// whole, when the queue had keys up to the order last. Later ones may be granted before it is set, up to its order; so
// Perhaps is set then. What is said of earlier ones is certain as long as the keys stand that are returned: of them,
// one at least, a change makes sure that sets the number. If there are none, or too many to look at, it is uncertain.
func (l *Line[T]) HeldNow(n *Number, last int64) (stand []T) {
	old := l.Number
	doubts := old.Perhaps > 0 && l.anyPerhaps()
	if old.Permits > 0 && !old.Unset && n.Permits >= old.Permits { // a holder still fits, or stays
		if doubts {
			n.Waited, n.Perhaps = old.Waited, old.Perhaps
		}
		return nil
	}
	n.Waited = 0
	if old.Permits == 0 && doubts { // the number that was set is not known
		n.Perhaps = old.Perhaps
		return nil
	}
	held := l.Holders()
	if len(held) > 0 {
		n.Held = held[len(held)-1].key().Order
	}
	n.Waited = last
	if len(held) < len(l.Keys) { // as long as these stand, the first one waits, and so do those behind it
		first := l.Keys[len(held)]
		p := l.Place(first)
		stand, _ = p.Obstacles()
		stand = append(stand, first)
	} else if len(held) > 0 {
		stand = []T{held[len(held)-1]}
	}
	if doubts {
		n.Waited = min(n.Waited, old.Waited)
	}
	return stand
}

func (l *Line[T]) anyPerhaps() bool {
	for _, t := range l.Keys {
		if l.Perhaps(t) {
			return true
		}
	}
	return false
}
