package view

import (
	"strconv"
	"time"

	"github.com/interlock-go/interlock"
)

// Queue is how programs see a lock. Tokens are decimal strings: they do not fit the numbers of many JSON readers.
type Queue struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind,omitempty"` // none of a lock that is free
	Capacity int64    `json:"capacity,omitempty"`
	Holders  []Member `json:"holders"`
	Waiters  []Member `json:"waiters"`

	Overruns []Overrun `json:"overruns,omitempty"`    // work of leases that were lost
	Paused   time.Time `json:"paused_until,omitzero"` // nothing is granted before
}

// Party is a holder or a waiter, as its program calls itself.
type Party struct {
	Owner string `json:"owner"`
	Note  string `json:"note"`
	Units int64  `json:"units"`
}

// Member is a holder or a waiter of a lock.
type Member struct {
	ID string `json:"id"`
	Party
	Token string    `json:"token,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"` // of another library it is not known
	Fixed bool      `json:"fixed"`
	At    string    `json:"at,omitempty"`

	Foreign bool `json:"foreign,omitempty"` // of another library
}

// Overrun is work that goes on though its lease was lost.
type Overrun struct {
	ID string `json:"id"`
	Party
	Token string    `json:"token"`
	Since time.Time `json:"since,omitzero"` // of the loss
}

// QueueOf is a lock for programs.
func QueueOf(q interlock.Queue) Queue {
	out := Queue{Name: q.Name, Kind: q.Kind, Capacity: q.Capacity, Holders: members(q.Holders), Waiters: members(q.Waiters), Paused: q.Paused}
	for _, o := range q.Overruns {
		out.Overruns = append(out.Overruns, Overrun{o.ID, Party{o.Owner, o.Note, o.Units}, strconv.FormatUint(o.Token, 10), o.Since})
	}
	return out
}

func members(list []interlock.Member) []Member {
	out := []Member{}
	for _, m := range list {
		out = append(out, MemberOf(m))
	}
	return out
}

// MemberOf is a member for programs.
func MemberOf(m interlock.Member) Member {
	if m.Foreign && !m.Fixed {
		m.Until = time.Time{}
	}
	return Member{m.ID, Party{m.Owner, m.Note, m.Units}, Token(m), m.Since, m.Until, m.Fixed, m.At, m.Foreign}
}

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
