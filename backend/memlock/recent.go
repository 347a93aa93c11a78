package memlock

import (
	"hash/maphash"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// recent remembers values for span, and no longer: whoever relies on more than the contract
// finds that out. It frees whole generations, so that nothing is spent on single entries.
type recent[V any] struct {
	span       time.Duration
	since      driver.Instant      // when the young generation began
	young, old map[uint64]entry[V] // by a hash of the ID, which takes a quarter of the space
}

var seed = maphash.MakeSeed()

type entry[V any] struct {
	at driver.Instant
	v  V
}

func (r *recent[V]) get(now driver.Instant, id string) (v V, ok bool) {
	r.age(now)
	k := maphash.String(seed, id)
	e, ok := r.young[k]
	if !ok && r.old != nil {
		e, ok = r.old[k]
	}
	if !ok || now.Sub(e.at) >= r.span {
		return v, false
	}
	return e.v, true
}

func (r *recent[V]) put(now driver.Instant, id string, v V) {
	r.age(now)
	if r.young == nil {
		r.young = map[uint64]entry[V]{}
	}
	r.young[maphash.String(seed, id)] = entry[V]{now, v}
}

func (r *recent[V]) age(now driver.Instant) {
	switch age := now.Sub(r.since); {
	case age < r.span:
	case age < 2*r.span:
		r.old, r.young, r.since = r.young, nil, now
	default:
		r.old, r.young, r.since = nil, nil, now
	}
}
