package etcdlock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
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

func (l layout) demand(t *ticket) string { return l.mail(t.Mailbox) + t.Session + "/" + t.ID }

// leaseOf is the lease of a session.
func leaseOf(session string) clientv3.LeaseID {
	n, _ := strconv.ParseUint(session[:16], 16, 64) // it is hexadecimal
	return clientv3.LeaseID(max(n>>1, 1))
}

// row is what the value of a ticket says, behind its note.
type row struct {
	keys.Key
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

// ticket is a key of a queue. Its order is the revision of its creation.
type ticket struct {
	row
	queue, key string
	note       []byte
	changed    int64
	lease      clientv3.LeaseID
	sure       bool // its client knows that it is held
}

// value is the note, so that other programs show that of a candidate, and behind it the row.
func (t *ticket) value() string { return string(t.note) + "\x00" + text(t.row) }

func text(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// maxValue is longer than the value of any ticket of this library.
const maxValue = 64 << 10

// readTicket reads a key of a queue; nil if it belongs to another queue, such as foo/bar/ID to foo.
func (l layout) readTicket(queue string, kv *mvccpb.KeyValue) *ticket {
	name := strings.TrimPrefix(string(kv.Key), l.queue(queue))
	if strings.Contains(name, "/") {
		return nil
	}
	t := &ticket{queue: queue, key: string(kv.Key), changed: kv.ModRevision, lease: clientv3.LeaseID(kv.Lease)}
	value, at := kv.Value, bytes.LastIndexByte(kv.Value, 0)
	if at < 0 || len(value) > maxValue || json.Unmarshal(value[max(at+1, 0):], &t.row) != nil || driver.CheckID(t.ID) != nil ||
		t.Units < 1 || t.Units > t.Capacity || len(t.Session) != 32 {
		t.row, at = row{Key: keys.Key{ID: name, Units: 1, Capacity: 1, Foreign: true}}, len(value) // of another library
		if at > maxValue {
			value, at = bytes.Clone(value[:driver.MaxNote]), driver.MaxNote // a client that reads a whole queue has room for it
		}
	}
	t.Order, t.Stays, t.note = kv.CreateRevision, t.Held || t.Fixed > 0, value[:at]
	return t
}

// readOne reads the answer to a question for a key, and returns the ticket if that has this ID.
func (l layout) readOne(ref exchange.Ref, all kvs) *ticket {
	if len(all) > 0 {
		if t := l.readTicket(ref.Queue, all[0]); t != nil && t.ID == ref.ID {
			return t
		}
	}
	return nil
}

func (t *ticket) of(s exchange.Session) bool { return !t.Foreign && t.Session == s.ID }

// attached: it ends with its session.
func (t *ticket) attached() bool { return t.lease == leaseOf(t.Session) }

// standsFor: it is of the session, or has a fixed end, or is to get one since it is held by now.
func (t *ticket) standsFor(s exchange.Session, held bool) bool {
	return t.of(s) || !t.Foreign && (t.Fixed > 0 || t.Hold > 0 && held)
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
	tag := uint64(t.Order) << tagBits
	set := func(bit uint64, is bool) {
		if is {
			tag |= bit
		}
	}
	set(tagHeld, p.Held)
	set(tagExclusive, p.Exclusive)
	set(tagSemaphore, t.Kind == driver.Semaphore)
	set(tagSeat, !strings.HasSuffix(t.key, "/"+t.ID))
	return tag
}

// knows notes that by its tag the ticket is held.
func (t *ticket) knows(tag uint64) {
	t.sure = tag&tagHeld != 0 && tag>>tagBits == uint64(t.Order)
	t.Stays = t.Stays || t.sure
}

// line is the front of a queue, and what the queue keeps, as they were at one revision. Read further at a later one, a
// ticket that was removed meanwhile would be held beside the next one, and the number of permits could be another one.
type line struct {
	keys.Line[*ticket]
	at int64 // that revision; 0: the latest one
}

type place = keys.Place[*ticket]

// readLine adds keys to a line.
func (l layout) readLine(ln *line, queue string, r *pb.RangeResponse) {
	for _, kv := range r.Kvs {
		ln.UpTo = max(ln.UpTo, kv.CreateRevision)
		if t := l.readTicket(queue, kv); t != nil {
			ln.Keys = append(ln.Keys, t)
		}
	}
	ln.Add()
	ln.Whole = !r.More
}

func readMark(all kvs) (m keys.Mark) {
	if len(all) > 0 {
		_ = json.Unmarshal(all[0].Value, &m) // garbage says that somebody died
		m.Changed = all[0].ModRevision
	}
	return m
}

// readKept reads the key of the floor. If it cannot be read, a number may have been set, by which those are
// held that were created before.
func readKept(all kvs) (k keys.Kept, err error) {
	if len(all) == 0 {
		return k, nil
	}
	k.Written = all[0].ModRevision
	bad := func(is string) (keys.Kept, error) {
		lost := keys.Kept{Written: k.Written, Number: keys.Number{Set: k.Written, Perhaps: k.Written}}
		return lost, driver.Permanent(fmt.Errorf("the key %s is not %s: run interlock admin raise-token, and after it interlock permits set if a number of permits was set", all[0].Key, is))
	}
	if json.Unmarshal(all[0].Value, &k) != nil || text(k) != string(all[0].Value) { // other fields would mean more
		return bad("a floor of tokens")
	}
	k.Number.WrittenAt(k.Written)
	switch {
	case slices.ContainsFunc(k.Floor, func(s keys.Step) bool { return s.Add >= driver.MaxToken }):
		return bad("a floor of tokens")
	case !k.Number.Sound(k.Written):
		return bad("a number of permits")
	}
	return k, nil
}

// seconds is a time of a lease, which has whole ones.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
