package sqlitelock

import "time"

// recent remembers IDs for a time at least, and for three times as long at most.
type recent struct {
	new, old map[string]struct{}
	turned   time.Time
	span     time.Duration // the longest asked for
}

func (r *recent) put(id string, span time.Duration) {
	r.span = max(r.span, span)
	r.turn()
	if r.new == nil {
		r.new = map[string]struct{}{}
	}
	r.new[id] = struct{}{}
}

func (r *recent) has(id string) bool {
	r.turn()
	_, a := r.new[id]
	_, b := r.old[id]
	return a || b
}

// turn forgets the old ones when the new ones have become old.
func (r *recent) turn() {
	now := time.Now()
	switch age := now.Sub(r.turned); {
	case age >= 2*r.span:
		r.new, r.old, r.turned = nil, nil, now
	case age >= r.span:
		r.new, r.old, r.turned = nil, r.new, now
	}
}
