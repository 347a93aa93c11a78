package zklock

import (
	"encoding/hex"
	"time"
)

// recent remembers IDs for at least span, and at most about twice as long. It
// forgets whole generations, so that nothing is spent on single ones.
type recent struct {
	span       time.Duration
	since      time.Time // when the young generation began
	young, old map[[16]byte]struct{}
}

func (r *recent) has(id string) bool {
	r.age(time.Now())
	k := key(id)
	_, young := r.young[k]
	_, old := r.old[k]
	return young || old
}

func (r *recent) add(id string) {
	r.age(time.Now())
	if r.young == nil {
		r.young = map[[16]byte]struct{}{}
	}
	r.young[key(id)] = struct{}{}
}

func (r *recent) age(now time.Time) {
	switch age := now.Sub(r.since); {
	case age < r.span:
	case age < 2*r.span:
		r.old, r.young, r.since = r.young, nil, now
	default:
		r.old, r.young, r.since = nil, nil, now
	}
}

func key(id string) (k [16]byte) {
	_, _ = hex.Decode(k[:], []byte(id)) // it was checked
	return k
}
