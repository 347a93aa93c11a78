package sqlitelock

import (
	"sync"
	"time"

	"github.com/interlock-go/interlock/internal/recent"
)

// known is the number of a ticket of this client: the file has no index of IDs, and messages name
// tickets by their numbers. What stands, the row says.
type known struct {
	number
	id      string
	session *session

	// Guarded by tickets.mu.
	waits  bool // it is a waiter, as far as this client knows
	joined bool // the exchange of its Join has ended: if the file has no row of it, it has left
	unsure bool // the commit of that exchange has failed in a way that leaves open what it did
}

// number names a ticket as messages do.
type number struct {
	queue string
	n     int64
}

// tickets are those of this client's sessions. All Joins of a session are exchanges of one client,
// so that a ticket without a number here does not stand, unless it is of another session.
type tickets struct {
	mu         sync.Mutex
	byID       map[string]*known
	byNumber   map[number]*known
	waiters    int
	tombstones recent.IDs
}

func newTickets() tickets {
	return tickets{byID: map[string]*known{}, byNumber: map[number]*known{}}
}

func (ts *tickets) get(id string) *known {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.byID[id]
}

// put is called before the commit of a Join: a message may name the ticket as soon as that is done.
func (ts *tickets) put(k *known) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.byID[k.id], ts.byNumber[k.number] = k, k
	if k.waits {
		ts.waiters++
	}
}

// granted is called for an exchange or a message that says that a ticket is held.
func (ts *tickets) granted(k *known) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.grant(k)
}

// grant is granted with the mutex held.
func (ts *tickets) grant(k *known) {
	if k.waits && ts.byID[k.id] == k {
		k.waits = false
		ts.waiters--
	}
}

// wait says whether some ticket is a waiter, and whether this one is, which may be unknown.
func (ts *tickets) wait(id string) (some, this bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	k := ts.byID[id]
	return ts.waiters > 0, k != nil && k.waits
}

// ended is called when the exchange of a Join has ended. Undone: nothing of it is in the file.
func (ts *tickets) ended(k *known, undone, unsure bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	k.joined, k.unsure = true, unsure
	if undone {
		ts.remove(k)
	}
}

// look finds a ticket; nil if there is none. Certain says that it has left if the file does not have
// it, and tomb that there is a tombstone. It is one look: a message may come at any time.
func (ts *tickets) look(id string) (k *known, certain, tomb bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	k = ts.byID[id]
	return k, k != nil && k.joined && !k.unsure, ts.tombstones.Has(id)
}

// left is called for a ticket that does not stand any more. It must not come back: a Join that is
// repeated may be under way.
func (ts *tickets) left(k *known) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.leave(k)
}

// leave is left with the mutex held.
func (ts *tickets) leave(k *known) {
	ts.remove(k)
	ts.entomb(k.id, k.session.ttl)
}

func (ts *tickets) remove(k *known) {
	if ts.byID[k.id] == k {
		ts.grant(k)
		delete(ts.byID, k.id)
		delete(ts.byNumber, k.number)
	}
}

// addTombstone has a Join with the ID refused for some time.
func (ts *tickets) addTombstone(id string, span time.Duration) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.entomb(id, span)
}

func (ts *tickets) entomb(id string, span time.Duration) {
	ts.tombstones.Span = max(ts.tombstones.Span, span)
	ts.tombstones.Add(id)
}

// forget is called for a session that is over, and returns the tickets that it had.
func (ts *tickets) forget(o *session) (all []*known) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, k := range ts.byID {
		if k.session == o {
			ts.remove(k)
			all = append(all, k)
		}
	}
	return all
}

// some lists some tickets.
func (ts *tickets) some(most int) (all []number) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for n := range ts.byNumber {
		if len(all) == most {
			break
		}
		all = append(all, n)
	}
	return all
}
