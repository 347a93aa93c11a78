package keys

import (
	"slices"
)

// Verdict is what is to become of a newcomer.
type Verdict[T Keyed] struct {
	Refused bool // it is to leave
	Expel   []T  // these are to leave: they intrude, and were not granted

	// By is the reason: a key in front, or the number of permits if it is the zero value. The change that expels makes
	// sure that this still stands, and the newcomer: removed meanwhile, it would be held beside the next one.
	By T
}

// Agree says whether a newcomer may stay in its queue. That belongs to whom came first: the newcomer is refused if a
// key in front of it is of another kind, or says another number of permits, unless that one intrudes itself. It may be
// about to leave, and it may not know yet. One that may be held, by a number that is not known, is not expelled. Once a
// newcomer may stay and none is to be expelled, no key in front of it intrudes any more.
func (l *Line[T]) Agree(t T) (v Verdict[T]) {
	k, permits := t.key(), l.Permits()
	if l.intrudes(k, permits) {
		return Verdict[T]{Refused: true}
	}
	for i, f := range l.Keys {
		switch o := f.key(); {
		case o.Order >= k.Order:
			return v
		case o.ID == k.ID || l.suits(o, k, permits):
		case o.Foreign: // it never learns that it intrudes
			return Verdict[T]{Refused: true, By: f}
		default:
			var by T
			intrudes := l.intrudes(o, permits)
			if at := slices.IndexFunc(l.Keys[:i], func(e T) bool { return !l.suits(e.key(), o, permits) }); !intrudes && at >= 0 {
				by, intrudes = l.Keys[at], true
			}
			switch {
			case !intrudes:
				return Verdict[T]{Refused: true, By: f}
			case l.perhaps(o) || len(v.Expel) > 0 && v.By != by: // these in the next round
			default:
				v.Expel, v.By = append(v.Expel, f), by
			}
		}
	}
	return v
}

// suits: a key is of the same kind and capacity as one behind it.
func (l *Line[T]) suits(o, k *Key, permits int64) bool {
	if o.Foreign {
		return o.Kind == "" || o.Kind == k.Kind || slices.Contains(o.Also, k.Kind)
	}
	return o.Kind == k.Kind && capacity(o, permits) == capacity(k, permits) && !l.intrudes(o, permits)
}
