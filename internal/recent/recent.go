// Package recent remembers the tickets that backends have seen leave.
package recent

import (
	"encoding/hex"
	"time"
)

// IDs remembers IDs of 32 hexadecimal digits for at least Span, and at most three
// times as long. It forgets whole generations, so that nothing is spent on single
// ones.
type IDs struct {
	Span       time.Duration
	since      time.Time // when the young generation began
	young, old map[[16]byte]struct{}
}

// Has reports whether the ID is remembered.
func (r *IDs) Has(id string) bool {
	r.age(time.Now())
	k := key(id)
	_, young := r.young[k]
	_, old := r.old[k]
	return young || old
}

// Add remembers the ID from now on.
func (r *IDs) Add(id string) {
	r.age(time.Now())
	if r.young == nil {
		r.young = map[[16]byte]struct{}{}
	}
	r.young[key(id)] = struct{}{}
}

func (r *IDs) age(now time.Time) {
	switch age := now.Sub(r.since); {
	case age < r.Span:
	case age < 2*r.Span:
		r.old, r.young, r.since = r.young, nil, now
	default:
		r.old, r.young, r.since = nil, nil, now
	}
}

func key(id string) (k [16]byte) {
	_, _ = hex.Decode(k[:], []byte(id)) // it was checked
	return k
}
