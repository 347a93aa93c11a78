package pglock

import (
	"hash/maphash"
	"sync/atomic"
)

// crowds are queues in which others were met the last time. Functions that are told so
// leave out what only succeeds if nobody else is there, and do the same without. Some
// queues may be taken for others: that costs time, and decides nothing.
type crowds struct {
	met [1024]atomic.Bool
}

var seed = maphash.MakeSeed()

func (c *crowds) at(queue string) *atomic.Bool {
	return &c.met[maphash.String(seed, queue)%uint64(len(c.met))]
}

func (c *crowds) has(queue string) bool { return c.at(queue).Load() }

func (c *crowds) note(queue string, met bool) {
	if a := c.at(queue); a.Load() != met {
		a.Store(met)
	}
}
