package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock"
)

// queueJSON is how programs see a lock. Tokens are decimal strings: they do not
// fit the numbers of many JSON readers.
type queueJSON struct {
	Name     string       `json:"name"`
	Kind     string       `json:"kind"`
	Capacity int64        `json:"capacity"`
	Holders  []memberJSON `json:"holders"`
	Waiters  []memberJSON `json:"waiters"`

	Overruns []overrunJSON `json:"overruns,omitempty"`    // work of leases that were lost
	Paused   time.Time     `json:"paused_until,omitzero"` // nothing is granted before
}

// partyJSON is one that holds a lock or waits for it.
type partyJSON struct {
	Owner string `json:"owner"`
	Note  string `json:"note"`
	Units int64  `json:"units"`
}

type memberJSON struct {
	ID string `json:"id"`
	partyJSON
	Token string    `json:"token,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"` // of another library it is not known
	Fixed bool      `json:"fixed"`
	At    string    `json:"at,omitempty"`

	Foreign bool `json:"foreign,omitempty"` // of another library
}

type overrunJSON struct {
	ID string `json:"id"`
	partyJSON
	Token string    `json:"token"`
	Since time.Time `json:"since,omitzero"` // of the loss
}

func toJSON(q interlock.Queue) queueJSON {
	members := func(list []interlock.Member) []memberJSON {
		out := []memberJSON{}
		for _, m := range list {
			if m.Foreign && !m.Fixed {
				m.Until = time.Time{}
			}
			out = append(out, memberJSON{m.ID, partyJSON{m.Owner, m.Note, m.Units}, token(m), m.Since, m.Until, m.Fixed, m.At, m.Foreign})
		}
		return out
	}
	j := queueJSON{q.Name, q.Kind, q.Capacity, members(q.Holders), members(q.Waiters), nil, q.Paused}
	for _, o := range q.Overruns {
		j.Overruns = append(j.Overruns, overrunJSON{o.ID, partyJSON{o.Owner, o.Note, o.Units}, strconv.FormatUint(o.Token, 10), o.Since})
	}
	return j
}

func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(jsonText(b.Bytes()))
	return err
}

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
		n := 8
		at, _ := slices.BinarySearch(all, id)
		for _, i := range []int{at - 1, at + 1} { // what is most like it stands beside it
			if i >= 0 && i < len(all) {
				n = max(n, alike(id, all[i])+1)
			}
		}
		return id[:min(n, len(id))]
	}
}

// alike is how many bytes two texts begin with that are the same.
func alike(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
