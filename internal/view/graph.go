package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/interlock-go/interlock"
)

// Wait is that one program waits for another, for the locks that are named.
type Wait struct {
	Waiter  string   `json:"waiter"` // owners
	Holder  string   `json:"holder"`
	Locks   []string `json:"locks"`
	Waiters int      `json:"waiters"` // tickets of the waiter
}

// Waits are who waits for whom, the most waiters first. A wait goes from each owner of a waiter to each owner of a
// holder of the same lock. Programs without a name are left out.
func Waits(locks []interlock.Queue) []Wait {
	type ends struct{ waiter, holder string }
	all := map[ends]*Wait{}
	for _, q := range locks {
		holders := owners(q.Holders)
		for waiter, n := range owners(q.Waiters) {
			for holder := range holders {
				at := ends{waiter, holder}
				w := all[at]
				if w == nil {
					w = &Wait{Waiter: waiter, Holder: holder}
					all[at] = w
				}
				w.Waiters += n
				w.Locks = append(w.Locks, q.Name)
			}
		}
	}
	out := []Wait{}
	for _, w := range all {
		slices.Sort(w.Locks)
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.Waiters, a.Waiters), strings.Compare(a.Waiter, b.Waiter), strings.Compare(a.Holder, b.Holder))
	})
	return out
}

func owners(members []interlock.Member) map[string]int {
	out := map[string]int{}
	for _, m := range members {
		if m.Owner != "" {
			out[m.Owner]++
		}
	}
	return out
}
