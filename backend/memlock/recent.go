package memlock

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// recent remembers values for at least span and at most about twice as long. It
// forgets whole generations, so that nothing is spent on single entries.
type recent[V any] struct {
	span       time.Duration
	since      driver.Instant // when the young generation began
	young, old map[id]V
}

func (r *recent[V]) get(now driver.Instant, k id) (V, bool) {
	r.age(now)
	v, ok := r.young[k]
	if !ok && r.old != nil {
		v, ok = r.old[k]
	}
	return v, ok
}

func (r *recent[V]) put(now driver.Instant, k id, v V) {
	r.age(now)
	if r.young == nil {
		r.young = map[id]V{}
	}
	r.young[k] = v
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
