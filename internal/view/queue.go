package view

import (
	"strconv"

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
