package etcdlock

import (
	"context"
	"slices"

	"github.com/interlock-go/interlock/driver/exchange"
)

// The number of permits stands in the key of the floor, which is read with the line whatever the kind of a ticket is: so
// number and line are of one revision, and who wants a mutex sees the number, too. Who was held when it was set is found
// out after that, from the history of the queue: nothing but the number has changed at that revision. Whoever finds that
// this was not done does it, with the same result. If the history was compacted before, it stays open who was held: none
// of these counts as a holder for others, and none is removed as a waiter.

// numbers does what is left to do of the numbers of permits of the queues that a look has read: it has
// waiters leave that can never fit, and a heartbeat finds out who was held. If it fails, the next look tries
// again: these queues are not the only ones of the client.
func (l *look) numbers(ctx context.Context) {
	for _, q := range l.queues {
		if len(q.unfits) > 0 {
			gone, _ := l.s.removeUnfit(ctx, q.Kept, q.unfits)
			for _, t := range l.seen {
				if slices.Contains(gone, t.ticket) {
					l.found[t.i] = exchange.Status{}
				}
			}
		}
	}
	for name, q := range l.queues {
		if !q.Number.Complete() && !l.watch {
			_, _ = l.s.findHeld(ctx, name, q.Kept)
		}
	}
}
