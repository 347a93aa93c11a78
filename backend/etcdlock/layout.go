package etcdlock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// layout names the keys, behind a namespace. A ticket of the queue NAME has a key NAME/…, in the
// order of creation; so have locks and elections of etcd's own package concurrency. All other keys begin
// with a brace, which no name has.
type layout struct{ namespace string }

func (l layout) queue(name string) string { return l.namespace + name + "/" }

// seat is the key of most tickets. A session has sixteen in a queue, by the first digit of the ticket's ID, and uses
// them again and again: until the next compaction a server passes, whenever it reads a queue, each key
// that was ever there.
func (l layout) seat(s exchange.Session, queue, id string) string {
	return l.queue(queue) + s.ID[:16] + "-" + id[:1]
}

// ticket is the key of a ticket whose seat was taken.
func (l layout) ticket(queue, id string) string { return l.queue(queue) + id }

// keys are those that a ticket of a session may have.
func (l layout) keys(s exchange.Session, ref exchange.Ref) []string {
	switch {
	case ref.Tag == 0:
		return []string{l.seat(s, ref.Queue, ref.ID), l.ticket(ref.Queue, ref.ID)}
	case ref.Tag&tagSeat != 0:
		return []string{l.seat(s, ref.Queue, ref.ID)}
	}
	return []string{l.ticket(ref.Queue, ref.ID)}
}
func (l layout) cells() string              { return l.namespace + "{cell}/" }
func (l layout) swap(id string) string      { return l.namespace + "{swap}/" + id }
func (l layout) tombstone(id string) string { return l.namespace + "{tombstone}/" + id }

// mark is the key whose value names the last exclusive holder of a queue, unless that has left cleanly.
func (l layout) mark(queue string) string { return l.namespace + "{mark}/" + queue }

// leaver is the key whose value says when the last holder of a queue was created that has left while others
// waited. What was behind that one is in front now.
func (l layout) leaver(queue string) string { return l.namespace + "{leaver}/" + queue }

// floor is the key of what a queue keeps while it has no tickets: what is added to its tokens, and the number
// of permits that was set for it. That of "" says what is added to all tokens.
func (l layout) floor(queue string) string { return l.namespace + "{floor}/" + queue }

// mail is the prefix of a mailbox. Behind it the key of a session, which stands as long as its lease,
// and behind that the demands for its tickets.
func (l layout) mail(mailbox string) string { return l.namespace + "{mail}/" + mailbox + "/" }

func (l layout) session(s exchange.Session) string { return l.mail(s.Mailbox) + s.ID }

func (l layout) demand(t *ticket) string { return l.mail(t.Mailbox) + t.Session + "/" + t.id }

// leaseOf is the lease of a session.
func leaseOf(session string) clientv3.LeaseID {
	n, _ := strconv.ParseUint(session[:16], 16, 64) // it is hexadecimal
	return clientv3.LeaseID(max(n>>1, 1))
}

// row is what the value of a ticket says, behind its note.
type row struct {
	ID          string        `json:"id"`
	Kind        driver.Kind   `json:"kind"`
	Units       int64         `json:"units"`
	Capacity    int64         `json:"capacity"`
	Session     string        `json:"session"`
	Owner       string        `json:"owner,omitempty"`
	Mailbox     string        `json:"mailbox"`
	TTL         time.Duration `json:"ttl"`
	Since       time.Time     `json:"since"`
	Hold        time.Duration `json:"hold,omitempty"` // of the Join
	ReportDeath bool          `json:"robust,omitempty"`
	Fixed       time.Duration `json:"fixed,omitempty"` // how long the fixed time is that ends with the ticket's lease
	Held        bool          `json:"held,omitempty"`  // it was when this was written; else the line says it
	Evicted     bool          `json:"evicted,omitempty"`
	Revoked     bool          `json:"revoked,omitempty"`
}

// ticket is a key of a queue.
type ticket struct {
	row
	queue, key, id   string
	note             []byte
	foreign          bool // it is of another library
	created, changed int64
	lease            clientv3.LeaseID
	sure             bool // its client knows that it is held
}

// value is the note, so that other programs show that of a candidate, and behind it the row.
func (t *ticket) value() string {
	text, err := json.Marshal(t.row)
	if err != nil {
		panic(err)
	}
	return string(t.note) + "\x00" + string(text)
}

// readTicket reads a key of a queue; nil if it belongs to another queue, such as foo/bar/ID to foo.
func (l layout) readTicket(queue string, kv *mvccpb.KeyValue) *ticket {
	id := strings.TrimPrefix(string(kv.Key), l.queue(queue))
	if strings.Contains(id, "/") {
		return nil
	}
	t := &ticket{queue: queue, key: string(kv.Key), id: id, created: kv.CreateRevision, changed: kv.ModRevision, lease: clientv3.LeaseID(kv.Lease)}
	at := bytes.LastIndexByte(kv.Value, 0)
	t.foreign = at < 0 || json.Unmarshal(kv.Value[max(at+1, 0):], &t.row) != nil || driver.CheckID(t.ID) != nil ||
		t.Units < 1 || t.Units > t.Capacity || len(t.Session) != 32
	if t.foreign { // it takes all
		t.row, at = row{Units: 1, Capacity: 1}, len(kv.Value)
	} else {
		t.id = t.ID
	}
	t.note = kv.Value[:at]
	return t
}

// readOne reads the answer to a question for a key, and returns the ticket if that has this ID.
func (l layout) readOne(ref exchange.Ref, all kvs) *ticket {
	if len(all) > 0 {
		if t := l.readTicket(ref.Queue, all[0]); t != nil && t.id == ref.ID {
			return t
		}
	}
	return nil
}

func (t *ticket) of(s exchange.Session) bool { return !t.foreign && t.Session == s.ID }

// attached: it ends with its session.
func (t *ticket) attached() bool { return t.lease == leaseOf(t.Session) }

// standsFor: it is of the session, or has a fixed end, or is to get one since it is held by now.
func (t *ticket) standsFor(s exchange.Session, held bool) bool {
	return t.of(s) || !t.foreign && (t.Fixed > 0 || t.Hold > 0 && held)
}

// A tag is when a ticket was created, and what does not change any more.
const (
	tagHeld      = 1 << iota
	tagExclusive // it is held, and no other one
	tagWaited    // it is held, and was a waiter
	tagSeat      // its key is its seat
	tagSemaphore
	tagBits = iota
)

func (t *ticket) tag(p place) uint64 {
	tag := uint64(t.created) << tagBits
	if p.held {
		tag |= tagHeld
	}
	if p.exclusive {
		tag |= tagExclusive
	}
	if t.Kind == driver.Semaphore {
		tag |= tagSemaphore
	}
	if !strings.HasSuffix(t.key, "/"+t.id) {
		tag |= tagSeat
	}
	return tag
}

// knows notes that by its tag the ticket is held.
func (t *ticket) knows(tag uint64) {
	t.sure = tag&tagHeld != 0 && tag>>tagBits == uint64(t.created)
}

// stays: it is held, whatever the line says.
func (t *ticket) stays() bool { return t.sure || t.Held || t.Fixed > 0 }

// line is the front of a queue, and what the queue keeps, as they were at one revision.
type line struct {
	kept
	tickets []*ticket // in the order of their creation
	upTo    int64     // those that were created up to this revision are there
	whole   bool      // all are there
	at      int64     // that revision; 0: it is not known
}

// asOf notes at which revision a line was read. Only of permits the rest must be of the same: their number
// can be lowered in between.
func (ln *line) asOf(revision int64) {
	if len(ln.tickets) == 0 || ln.tickets[0].Kind == driver.Semaphore {
		ln.at = revision
	}
}

// readLine adds keys to a line.
func (l layout) readLine(ln *line, queue string, r *pb.RangeResponse) {
	for _, kv := range r.Kvs {
		ln.upTo = max(ln.upTo, kv.CreateRevision)
		if t := l.readTicket(queue, kv); t != nil {
			ln.tickets = append(ln.tickets, t)
		}
	}
	slices.SortFunc(ln.tickets, func(a, b *ticket) int { return cmp.Compare(a.created, b.created) })
	ln.whole = !r.More
}

// capacity is what the ticket shares with those in front of it: the number of permits that is in force, or
// what its row says.
func (ln *line) capacity(t *ticket) int64 {
	if n := ln.permits(); n > 0 && t.Kind == driver.Semaphore {
		return n
	}
	return t.Capacity
}

// odd: it does not say the number that was in force when it was joined. Its Join is refused.
func (ln *line) odd(t *ticket) bool {
	n := ln.permits()
	return n > 0 && !t.foreign && t.created > ln.number.Set && (t.Kind != driver.Semaphore || t.Capacity != n)
}

// against is how much a ticket takes of the capacity of one behind it. What is not of the same kind keeps
// that out.
func (ln *line) against(o, t *ticket) int64 {
	c := ln.capacity(t)
	if o.foreign || o.Kind != t.Kind || ln.odd(o) || ln.capacity(o) != c {
		return c
	}
	return o.Units
}

// needsAll: no other ticket is held beside it.
func (ln *line) needsAll(t *ticket) bool { return t.foreign || t.Units >= ln.capacity(t) }

// keepsOut: while the first ticket stands in front of the second one, that is not held.
func (ln *line) keepsOut(o, t *ticket) bool {
	return ln.needsAll(t) || ln.against(o, t) >= ln.capacity(t)
}

// full: what stands further behind is not held.
func (ln *line) full() bool {
	if len(ln.tickets) == 0 || ln.tickets[0].foreign {
		return len(ln.tickets) > 0
	}
	next := *ln.tickets[0]
	next.Units, next.Capacity, next.created, next.Fixed, next.Held, next.sure = 1, ln.capacity(&next), math.MaxInt64, 0, false, false
	p := ln.place(&next)
	return p.known && !p.held && ln.upTo >= max(ln.number.Held, ln.number.Perhaps)
}

// place is where a ticket stands.
type place struct {
	known     bool // whether it is held
	held      bool
	exclusive bool      // of a holder: it has all, and no other one is held
	wanted    bool      // of a holder: a waiter is behind it
	first     bool      // of a waiter: no waiter is in front of it
	before    []*ticket // in front of it
	all       bool      // before is all of these
	far       bool      // before is some ticket, and others may stand between
	line      *line
}

// place judges by the one rule: a ticket is held if all up to it fit the capacity. What was held before that
// was lowered stays held.
func (ln *line) place(t *ticket) (p place) {
	free, n, waiters := ln.capacity(t), 0, false
	waits := func(o *ticket, units int64) bool {
		if free >= 0 { // a sum of very many does not overflow
			free -= units
		}
		return free < 0 && o.created > ln.number.Held
	}
	for ; n < len(ln.tickets) && ln.tickets[n].created < t.created; n++ {
		waiters = waits(ln.tickets[n], ln.against(ln.tickets[n], t)) || waiters
	}
	stays := t.stays() || t.created <= ln.number.Held
	p.line, p.before, p.all = ln, ln.tickets[:n], ln.whole || ln.upTo >= t.created-1
	p.held = p.all && (stays || free >= t.Units && !ln.odd(t))
	p.known = p.all || free < t.Units && !stays // what stands further behind changes nothing
	p.first = p.all && !p.held && !waiters
	free -= t.Units
	beside := n > 0
	for _, o := range ln.tickets[n:] {
		if o.created > t.created {
			p.wanted = waits(o, ln.against(o, t)) && p.held || p.wanted
			beside = beside || o.created <= ln.number.Held
		}
	}
	p.exclusive = p.held && !beside && ln.needsAll(t)
	return p
}

// blocker is the last ticket in front that alone keeps the ticket out; nil if there is none.
func (p *place) blocker(t *ticket) *ticket {
	for _, o := range slices.Backward(p.before) {
		if p.line.keepsOut(o, t) {
			return o
		}
	}
	return nil
}

// keepers says that the tickets stand which keep a waiter out.
func (p *place) keepers(t *ticket) (all []clientv3.Cmp) {
	add := func(o *ticket) { all = append(all, clientv3.Compare(clientv3.CreateRevision(o.key), "=", o.created)) }
	if b := p.blocker(t); b != nil {
		add(b)
		return all
	}
	free := p.line.capacity(t)
	for _, o := range p.before {
		if add(o); len(all) == maxOps/2 {
			break // the others are too many for a transaction
		}
		if free -= p.line.against(o, t); free < t.Units {
			break
		}
	}
	return all
}

// mark is what the key of that name says.
type mark struct {
	ID        string `json:"id"`
	Inherited bool   `json:"inherited,omitempty"` // by the ticket itself

	changed int64 // 0: there is none
}

func readMark(all kvs) (m mark) {
	if len(all) > 0 {
		_ = json.Unmarshal(all[0].Value, &m) // garbage says that somebody died
		m.changed = all[0].ModRevision
	}
	return m
}

func (m mark) value() string {
	text, _ := json.Marshal(m)
	return string(text)
}

// kept is what a queue keeps while it has no tickets.
type kept struct {
	floor   floor
	number  number
	written int64 // the revision at which it was; 0: never
}

// floor is what is added to tokens, in the order in which it was raised. Tickets that were held by then
// keep their tokens.
type floor []step

type step struct {
	After  int64   `json:"after"` // the revision at which the last ticket was created that keeps its token
	Add    uint64  `json:"add"`
	Number *number `json:"number,omitempty"` // of one that stands before all others, and adds nothing
}

// maxSteps is how many are kept: earlier ones are about tickets that have left, most likely.
const maxSteps = 16

func (f floor) add(created int64) (n uint64) {
	for i, s := range f {
		if i == 0 && len(f) == maxSteps || s.After < created {
			n = s.Add
		}
	}
	return n
}

// readKept reads the key of the floor. If it cannot be read, a number may have been set, by which those are
// held that were created before.
func readKept(all kvs) (k kept, err error) {
	if len(all) == 0 {
		return k, nil
	}
	k.written = all[0].ModRevision
	bad := func(is string) (kept, error) {
		lost := kept{written: k.written, number: number{Set: k.written, Perhaps: k.written}}
		return lost, driver.Permanent(fmt.Errorf("the key %s is not %s: run interlock admin raise-token, and after it interlock permits set if a number of permits was set", all[0].Key, is))
	}
	if json.Unmarshal(all[0].Value, &k.floor) != nil || slices.ContainsFunc(k.floor, func(s step) bool { return s.Add >= driver.MaxToken }) {
		return bad("a floor of tokens")
	}
	if len(k.floor) > 0 && k.floor[0].Number != nil {
		k.number, k.floor = *k.floor[0].Number, k.floor[1:]
		if k.number.complete(k.written); !k.number.sound(k.written) {
			return bad("a number of permits")
		}
	}
	return k, nil
}

// value is what readKept reads.
func (k kept) value() string {
	all := k.floor[max(0, len(k.floor)-maxSteps):]
	if k.number != (number{}) {
		all = slices.Insert(slices.Clone(all), 0, step{Number: &k.number})
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// seconds is a time of a lease, which has whole ones.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
