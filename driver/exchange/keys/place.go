package keys

import (
	"math"
	"slices"
)

// Place is where a key stands.
type Place[T Keyed] struct {
	Known     bool // whether it is held; else the line has to be read further
	Held      bool
	Exclusive bool // of a holder: it has all, and no other one is held
	Wanted    bool // of a holder: a waiter is behind it
	First     bool // of a waiter: no waiter is in front of it
	Before    []T  // in front of it
	All       bool // Before is all of these

	line *Line[T]
	of   *Key
}

// Place judges by the one rule: a key is held if all up to it fit the capacity. What was held before the number of
// permits was lowered stays held. The key need not be in the line.
func (l *Line[T]) Place(t T) Place[T] { return l.place(t.key()) }

func (l *Line[T]) place(k *Key) (p Place[T]) {
	permits := l.Permits()
	free, n, waiters := capacity(k, permits), 0, false
	waits := func(o *Key) bool {
		if free >= 0 { // a sum of very many does not overflow
			free -= l.against(o, k, permits)
		}
		return free < 0 && o.Order > l.Number.Held
	}
	for ; n < len(l.Keys) && l.Keys[n].key().Order < k.Order; n++ {
		waiters = waits(l.Keys[n].key()) || waiters
	}
	stays := k.Stays || k.Order <= l.Number.Held
	p.line, p.of = l, k
	p.Before, p.All = l.Keys[:n], l.Whole || l.UpTo >= k.Order-1
	p.Held = p.All && (stays || free >= k.Units && !l.intrudes(k, permits))
	p.Known = p.All || free < k.Units && !stays // the keys further behind change nothing
	p.First = p.All && !p.Held && !waiters
	if free >= 0 {
		free -= k.Units
	}
	beside := n > 0
	for _, t := range l.Keys[n:] {
		if o := t.key(); o.Order > k.Order {
			p.Wanted = waits(o) && p.Held || p.Wanted
			beside = beside || o.Order <= l.Number.Held
		}
	}
	p.Exclusive = p.Held && !beside && needsAll(k, permits)
	return p
}

// Blocker is the last key in front that alone keeps the waiter out.
func (p *Place[T]) Blocker() (t T, ok bool) {
	permits := p.line.Permits()
	for _, o := range slices.Backward(p.Before) {
		if p.line.keepsOut(o.key(), p.of, permits) {
			return o, true
		}
	}
	return t, false
}

// Obstacles are the nearest keys in front whose units together are too many; each one matters. As long
// as all of them stand, the waiter waits. Enough: it is held once this only one has left. There are none if the waiter
// asks for more than there is.
func (p *Place[T]) Obstacles() (all []T, enough bool) {
	permits := p.line.Permits()
	takes := func(o T) int64 { return p.line.against(o.key(), p.of, permits) }
	free, sum := capacity(p.of, permits)-p.of.Units, int64(0)
	for _, o := range slices.Backward(p.Before) {
		if sum > free {
			break
		}
		sum = add(sum, takes(o))
		all = append(all, o)
	}
	all = slices.DeleteFunc(all, func(o T) bool {
		needless := sum-takes(o) > free
		if needless {
			sum -= takes(o)
		}
		return needless
	})
	if len(all) == 1 && p.All && !p.line.intrudes(p.of, permits) {
		rest := int64(0)
		for _, o := range p.Before {
			rest = add(rest, takes(o))
		}
		enough = rest < math.MaxInt64 && rest-takes(all[0]) <= free
	}
	return all, enough
}

// add adds units. Foreign keys may claim any number.
func add(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
