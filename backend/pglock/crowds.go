package pglock

import (
	"hash/maphash"
	"sync/atomic"
)

// crowds is what was met in queues the last time: others, and functions that are told so
// leave out what only succeeds if nobody else is there; or none, and a statement does without
// functions. Some queues may be taken for others: that costs time, and decides nothing.
type crowds struct {
	met [1024]atomic.Uint32
}

const (
	_ = iota // nothing is known
	alone
	others
)

var seed = maphash.MakeSeed()

func (c *crowds) at(queue string) *atomic.Uint32 {
	return &c.met[maphash.String(seed, queue)%uint64(len(c.met))]
}

func (c *crowds) has(queue string) bool { return c.at(queue).Load() == others }

// alone reports whether a statement may do what a function does, and probably can. With logged tables there is more to
// do.
func (s *store) alone(queue string) bool {
	return s.inline && s.unlogged.Load() && s.crowds.at(queue).Load() == alone
}

func (c *crowds) note(queue string, met bool) {
	is := uint32(alone)
	if met {
		is = others
	}
	if a := c.at(queue); a.Load() != is {
		a.Store(is)
	}
}
