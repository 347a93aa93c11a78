package keys

import "math"

// Token is the token of the grant of a key, from the revision or transaction that created it, by the floors of its
// queue and of all. It does not change between the Join and the grant, so that a Store's tag has what it needs.
func Token(created int64, floors ...Floor) uint64 {
	add := uint64(0)
	for _, f := range floors {
		add = max(add, f.Add(created))
	}
	return uint64(created) + add
}

// Floor is what is added to tokens, in the order in which it was raised. Keys that were held by then keep their tokens.
type Floor []Step

// Step is one raise.
type Step struct {
	After int64  `json:"after"` // when the last key was created that keeps its token
	Add   uint64 `json:"add"`   // to all later ones
}

// MaxSteps is how many are kept: earlier ones are about tickets that have left, most likely.
const MaxSteps = 16

// Add is what is added to the token of a key that was created then. It never falls from one to a later one.
func (f Floor) Add(created int64) (n uint64) {
	for i, s := range f {
		if i == 0 && len(f) == MaxSteps || s.After < created {
			n = max(n, s.Add)
		}
	}
	return n
}

// Raised is the floor by which keys that are created after the given one have tokens above least. The next one is
// created then, or later.
func (f Floor) Raised(after, next int64, least uint64) Floor {
	add := f.Add(math.MaxInt64) // so it never falls
	if least >= uint64(next) {
		add = max(add, least+1-uint64(next))
	}
	all := append(f[:len(f):len(f)], Step{after, add})
	return all[max(0, len(all)-MaxSteps):]
}
