package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock"
)

// Orders are the names of the orders in which locks can be sorted.
//
//   - name: by name
//   - waiting: most waiters first
//   - wait: the oldest wait first
//   - held: the oldest holder first
var Orders = []string{"name", "waiting", "wait", "held"}

// Choice is which locks are shown, and in what order. The zero Choice is all, by name.
type Choice struct {
	Text    string        // in the name, or in the owner or the note of a holder or waiter; upper and lower case are the same
	Owner   string        // of a holder or waiter: its text contains this
	Waiting bool          // there is a waiter
	Older   time.Duration // a holder or a waiter is in line for longer than this
	Order   string        // one of Orders; "" is name
}

// Check refuses an order that does not exist.
func (c Choice) Check() error {
	if c.Order != "" && !slices.Contains(Orders, c.Order) {
		return fmt.Errorf("there is no order %q: take one of %s", c.Order, strings.Join(Orders, ", "))
	}
	return nil
}

// Of returns the chosen locks, sorted, in a slice of its own. Locks that are alike stand by name.
func (c Choice) Of(locks []interlock.Queue, now time.Time) []interlock.Queue {
	out := []interlock.Queue{}
	for _, q := range locks {
		if c.has(q, now) {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b interlock.Queue) int {
		first := 0
		switch c.Order {
		case "waiting":
			first = cmp.Compare(len(b.Waiters), len(a.Waiters))
		case "wait":
			first = olderFirst(Oldest(a.Waiters), Oldest(b.Waiters))
		case "held":
			first = olderFirst(Oldest(a.Holders), Oldest(b.Holders))
		}
		return cmp.Or(first, strings.Compare(a.Name, b.Name))
	})
	return out
}

func (c Choice) has(q interlock.Queue, now time.Time) bool {
	if c.Waiting && len(q.Waiters) == 0 {
		return false
	}
	text := strings.ToLower(c.Text)
	named := strings.Contains(strings.ToLower(q.Name), text)
	owned, old := c.Owner == "", c.Older == 0
	for _, members := range [][]interlock.Member{q.Holders, q.Waiters} {
		for _, m := range members {
			named = named || strings.Contains(strings.ToLower(m.Owner+"\n"+m.Note), text)
			owned = owned || strings.Contains(m.Owner, c.Owner)
			old = old || !m.Since.IsZero() && now.Sub(m.Since) > c.Older
		}
	}
	return named && owned && old
}

// Oldest is since when the first of some members is in line; zero if there is none, or the backend does not know.
func Oldest(members []interlock.Member) (oldest time.Time) {
	for _, m := range members {
		if !m.Since.IsZero() && (oldest.IsZero() || m.Since.Before(oldest)) {
			oldest = m.Since
		}
	}
	return oldest
}

// olderFirst compares times; one that is not known is the last.
func olderFirst(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		if a.IsZero() {
			return 1
		}
		return -1
	}
	return a.Compare(b)
}
