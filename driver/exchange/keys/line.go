// Package keys is for a Store whose tickets are keys in one order, which the backend gives and a session's end takes
// away: keys of etcd, nodes of ZooKeeper. No row says who holds. It follows from the keys that stand, so that the end
// of a session, and a change by another program, settle a queue at once. The package is the rule of such a queue, and
// does no I/O.
//
// # Glossary
//
//   - Key: a ticket, as the backend lists it. A Store's own type embeds [Key].
//   - Order: the place of a key among all that the queue ever had: etcd's revision of its creation, the number of a
//     sequential node. It is larger than 0.
//   - Line: the front of a queue, or all of it, as it was at one moment.
//   - Number: of permits, if Resize has set one. Else each key says it.
//   - Foreign: of another library, which does not say how much it takes. It takes all.
//   - To intrude: to be of another kind or number than what was there before. Such a ticket is refused.
//
// # An exchange
//
//  1. Read the keys, and what the queue keeps, at one moment. Fill a [Line].
//  2. For a newcomer, ask [Line.Agree].
//  3. Ask for its [Place]. If it is not known, read further.
//  4. A waiter watches one key: [Place.Blocker], or [Place.Obstacles]. So a hand-over wakes one waiter.
//  5. A holder gets its [Token], and learns from [Mark] or [Heir] whether it has inherited.
package keys

import (
	"cmp"
	"math"
	"slices"

	"github.com/interlock-go/interlock/driver"
)

// Key is what decides about a ticket.
type Key struct {
	ID       string      `json:"id"` // of a foreign one any that no other has
	Kind     driver.Kind `json:"kind"`
	Units    int64       `json:"units"`
	Capacity int64       `json:"capacity"` // as the key says; another one may be in force: see [Line.Capacity]

	Order   int64         `json:"-"`
	Foreign bool          `json:"-"`
	Also    []driver.Kind `json:"-"` // of a foreign one: what else its library may mean. Without a Kind it may be any

	// Stays: it is held, wherever it stands. Its client knows that, or the key says it: only a holder has a fixed end.
	Stays bool `json:"-"`
}

func (k *Key) key() *Key { return k }

// Keyed is a pointer to a type that embeds [Key].
type Keyed interface {
	comparable
	key() *Key
}

// Line is the front of a queue, and what the queue keeps.
type Line[T Keyed] struct {
	Kept
	Keys  []T   // in their order: see Add
	UpTo  int64 // keys up to this order are there, if all that were read are the first ones
	Whole bool  // all keys are there
}

// Kept is what a queue keeps while it has no keys.
type Kept struct {
	Number  Number `json:"number,omitzero"`
	Floor   Floor  `json:"floor,omitempty"`
	Written int64  `json:"-"` // a version, by the backend; 0: it was never written
}

// Add adds keys.
func (l *Line[T]) Add(all ...T) {
	l.Keys = append(l.Keys, all...)
	slices.SortStableFunc(l.Keys, func(a, b T) int { return cmp.Compare(a.key().Order, b.key().Order) })
}

// Find returns the key with an ID; false if there is none. Most that are looked for stand at the end.
func (l *Line[T]) Find(id string) (found T, ok bool) {
	for _, o := range slices.Backward(l.Keys) {
		if o.key().ID == id {
			return o, true
		}
	}
	return found, false
}

// Capacity is what a key shares with those in front of it: the number of permits that is in force, or what it says.
func (l *Line[T]) Capacity(t T) int64 { return capacity(t.key(), l.Permits()) }

func capacity(k *Key, permits int64) int64 {
	if permits > 0 && k.Kind == driver.Semaphore && !k.Foreign {
		return permits
	}
	return k.Capacity
}

// NeedsAll: no other key is held beside it.
func (l *Line[T]) NeedsAll(t T) bool { return needsAll(t.key(), l.Permits()) }

func needsAll(k *Key, permits int64) bool { return k.Foreign || k.Units >= capacity(k, permits) }

// Intrudes: a key does not say the number that was in force when it came.
func (l *Line[T]) Intrudes(t T) bool { return l.intrudes(t.key(), l.Permits()) }

func (l *Line[T]) intrudes(k *Key, permits int64) bool {
	return permits > 0 && !k.Foreign && k.Order > l.Number.Set && (k.Kind != driver.Semaphore || k.Capacity != permits)
}

// against is how much a key takes of the capacity of one behind it. What is not of the same kind keeps that out.
func (l *Line[T]) against(o, k *Key, permits int64) int64 {
	c := capacity(k, permits)
	if o.Foreign || o.Kind != k.Kind || l.intrudes(o, permits) || capacity(o, permits) != c {
		return c
	}
	return o.Units
}

// KeepsOut: while the first key stands in front of the second one, that is not held.
func (l *Line[T]) KeepsOut(o, t T) bool { return l.keepsOut(o.key(), t.key(), l.Permits()) }

func (l *Line[T]) keepsOut(o, k *Key, permits int64) bool {
	return needsAll(k, permits) || l.against(o, k, permits) >= capacity(k, permits)
}

// Full: no key further behind is held.
func (l *Line[T]) Full() bool {
	if len(l.Keys) == 0 {
		return false
	}
	next := *l.Keys[0].key()
	if next.Foreign {
		return true
	}
	next.Units, next.Capacity, next.Order, next.Stays = 1, capacity(&next, l.Permits()), math.MaxInt64, false
	p := l.place(&next)
	return p.Known && !p.Held && l.UpTo >= max(l.Number.Held, l.Number.Perhaps)
}

// Holders are the keys that are held: the first ones, always.
func (l *Line[T]) Holders() []T {
	for i, t := range l.Keys {
		if !l.Place(t).Held {
			return l.Keys[:i]
		}
	}
	return l.Keys
}
