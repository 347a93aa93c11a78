package metrics

import (
	"io"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

// MaxQueues is how many locks WriteQueues shows. Each is five series.
const MaxQueues = 1000

// WriteQueues writes what a backend shows of its locks (see [interlock.Admin.Queues]), in the text format of
// Prometheus: of each lock, by its name and kind, holders, waiters and how old they are, and leases that
// overrun. Ages are of tickets: a holder's counts from when it asked for the lock. Locks beyond the first
// MaxQueues are left out, and interlock_locks_left_out says how many they are.
func WriteQueues(w io.Writer, queues []interlock.Queue) error {
	now := time.Now()
	out := max(0, len(queues)-MaxQueues)
	queues = queues[:len(queues)-out]
	count := func(n int) (float64, bool) { return float64(n), true }
	oldest := func(members []interlock.Member) (age float64, known bool) {
		since := view.Oldest(members)
		return max(0, now.Sub(since).Seconds()), !since.IsZero()
	}
	var p page
	for _, f := range []struct {
		name, help string
		of         func(interlock.Queue) (float64, bool)
	}{
		{"interlock_lock_holders", "Who holds the lock now.",
			func(q interlock.Queue) (float64, bool) { return count(len(q.Holders)) }},
		{"interlock_lock_oldest_holder_age_seconds", "How long ago the oldest holder asked for the lock.",
			func(q interlock.Queue) (float64, bool) { return oldest(q.Holders) }},
		{"interlock_lock_waiters", "Who waits for the lock now.",
			func(q interlock.Queue) (float64, bool) { return count(len(q.Waiters)) }},
		{"interlock_lock_oldest_waiter_age_seconds", "How long ago the oldest waiter asked for the lock.",
			func(q interlock.Queue) (float64, bool) { return oldest(q.Waiters) }},
		{"interlock_lock_overruns", "Leases that were lost though the work under them goes on.",
			func(q interlock.Queue) (float64, bool) { return count(len(q.Overruns)) }},
	} {
		var blocks []string
		seen := map[string]bool{} // two samples of one series would spoil the page
		for _, q := range queues {
			at := join(label("kind", q.Kind), label("name", q.Name))
			if value, known := f.of(q); known && !seen[at] {
				seen[at] = true
				blocks = append(blocks, line(f.name, at, value))
			}
		}
		p.family(f.name, "gauge", f.help, blocks)
	}
	const left = "interlock_locks_left_out"
	p.family(left, "gauge", "Locks that are not shown, since there are too many.", []string{line(left, "", float64(out))})
	_, err := w.Write(p.Bytes())
	return err
}
