package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/interlock-go/interlock"
)

// pick finds the member that an ID, the beginning of one, or nothing means.
func pick(q interlock.Queue, args []string) (interlock.Member, error) {
	if len(q.Holders)+len(q.Waiters) == 0 {
		return interlock.Member{}, failed(exitAbsent, fmt.Errorf("nobody holds %s or waits for it", q.Name))
	}
	if len(args) == 0 {
		if len(q.Holders) == 1 {
			return q.Holders[0], nil
		}
		return interlock.Member{}, usage("%s has %d holders: give an ID (see interlock show %s)", q.Name, len(q.Holders), q.Name)
	}
	ticket, _, _ := strings.Cut(args[0], ".") // of the ID of a lease
	var found []interlock.Member
	for _, m := range slices.Concat(q.Holders, q.Waiters) {
		if ticket != "" && m.ID == ticket {
			return m, nil
		}
		if ticket != "" && strings.HasPrefix(m.ID, ticket) {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 0:
		return interlock.Member{}, failed(exitAbsent, fmt.Errorf("%s has no member %s (see interlock show %s)", q.Name, args[0], q.Name))
	case 1:
		return found[0], nil
	}
	return interlock.Member{}, usage("%s has %d members whose ID begins with %s", q.Name, len(found), args[0])
}

// shortIDs returns the beginning of an ID that no other member of the lock has, of eight
// characters at least: commands take it for the ID.
func shortIDs(q interlock.Queue) func(id string) string {
	var all []string
	for _, m := range slices.Concat(q.Holders, q.Waiters) {
		all = append(all, m.ID)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return func(id string) string {
		n := min(8, len(id))
		at, _ := slices.BinarySearch(all, id)
		for _, i := range []int{at - 1, at + 1} { // what is most like it stands beside it
			for i >= 0 && i < len(all) && n < len(id) && strings.HasPrefix(all[i], id[:n]) {
				n++
			}
		}
		return id[:n]
	}
}
