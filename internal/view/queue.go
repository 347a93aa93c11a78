package view

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/interlock-go/interlock"
)

// Token is what a late write of a holder is refused by, "" for a waiter.
func Token(m interlock.Member) string {
	if m.Token == 0 {
		return ""
	}
	return strconv.FormatUint(m.Token, 10)
}

// Held is what a member has of a lock, or wants: "writer", "2 of 5", or the kind of the lock.
func Held(q interlock.Queue, m interlock.Member) string {
	switch {
	case q.Kind == "rwmutex" && m.Units == q.Capacity:
		return "writer"
	case q.Kind == "rwmutex":
		return "reader"
	case q.Kind == "semaphore":
		return strconv.FormatInt(m.Units, 10) + " of " + strconv.FormatInt(q.Capacity, 10)
	}
	return q.Kind
}

// State is the same for locks that differ only in times, which some backends count anew with each look.
func State(locks ...interlock.Queue) string {
	all := slices.Clone(locks)
	for i := range all {
		q := &all[i]
		q.Holders, q.Waiters, q.Overruns = slices.Clone(q.Holders), slices.Clone(q.Waiters), slices.Clone(q.Overruns)
		for _, members := range [][]interlock.Member{q.Holders, q.Waiters} {
			for j := range members {
				members[j].Since, members[j].Until = time.Time{}, time.Time{}
			}
		}
		for j := range q.Overruns {
			q.Overruns[j].Since = time.Time{}
		}
		if !q.Paused.IsZero() {
			q.Paused = time.Unix(0, 0)
		}
	}
	b, _ := json.Marshal(all)
	return string(b)
}
