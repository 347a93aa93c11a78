package suite

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// pause is between two exchanges of a pulse.
const pause = 10 * time.Millisecond

// A Pulse is the longest time that an exchange has taken, or this machine has slept longer than it was to, since the
// pulse began. What a pause of this machine or of the backend does proves nothing.
type Pulse struct {
	longest atomic.Int64
	began   atomic.Int64 // the exchange that is under way, or the pause after it; from the start on
	start   time.Time
}

// Pulse begins, and goes on until the rule ends. One exchange comes after the other. One that fails is as slow as can
// be; without exchanges, it is this machine only.
func (t *Trial) Pulse(exchange func(context.Context) error) *Pulse {
	p := &Pulse{start: time.Now()}
	ctx, cancel := context.WithCancel(context.Background()) // Allow ends the rule's
	over := t.Go(func() {
		for ctx.Err() == nil {
			if exchange != nil && exchange(ctx) != nil && ctx.Err() == nil {
				p.longest.Store(math.MaxInt64)
			}
			time.Sleep(pause)
			p.Longest()
			p.began.Store(int64(time.Since(p.start)))
		}
	})
	t.Later(func() { cancel(); over() })
	return p
}

// Longest is the longest time until now.
func (p *Pulse) Longest() time.Duration {
	for {
		last := p.longest.Load()
		now := max(last, int64(time.Since(p.start)-pause)-p.began.Load())
		if p.longest.CompareAndSwap(last, now) {
			return time.Duration(now)
		}
	}
}
