package sqlitelock

import (
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"zombiezen.com/go/sqlite"
)

// queue is a row of the table queue, see schema.
type queue struct {
	name     string
	kind     string
	capacity int64
	resized  bool // the capacity is kept while there are no tickets
	last     int64
	granted  int64
	shift    int64
	used     int64
	tickets  int64
	waiting  int64
	unclean  bool
	version  int64
	watched  bool
	lone     *ticket // the only ticket, if the row holds it
	since    moment
	made     bool // the row is still to be inserted
	unknown  bool // what was given out cannot be read: nothing is granted until tokens are raised
}

// ticket is a row of the table ticket, see schema.
type ticket struct {
	n     int64
	id    string
	units int64
	sid   int64
	since moment
	note  []byte
	hold  time.Duration
	ends  moment // 0: none
	wall  int64
	flags int64
	owner string
	token int64 // 0: n + shift
}

func (p *ticket) is(flag int64) bool { return p.flags&flag != 0 }

// What is longer than anything that is written here is not loaded, but for the sign that it was cut: a
// member of the file's group could take the memory of all who look.
const (
	readNote  = "iif(octet_length(note) > 65536, CAST('…' AS BLOB), note)"
	readOwner = "iif(octet_length(owner) > 65536, '…', owner)"
	readKind  = "iif(octet_length(kind) > 65536, '…', kind)"
	readID    = "iif(octet_length(id) > 65536, '', id)" // NULL says that there is none
)

// named is true of a row whose name a client can have given. The others belong to no lock: a blob
// sorts behind all texts, so that a list that goes on behind its text begins anew, and a text can
// be as long as the file.
const named = "typeof(name) = 'text' AND octet_length(name) <= 528"

const (
	queueNumbers = "capacity, last, granted, shift, used, tickets, waiting, unclean, version, watched"
	queueColumns = "kind, " + queueNumbers + ", id, units, sid, since, note"
	readQueue    = readKind + ", " + queueNumbers + ", " + readID + ", units, sid, since, " + readNote
)

// resizedKind is the kind of a semaphore's row that keeps its capacity: see Resize.
const resizedKind = "semaphore, resized"

// scanQueue reads readQueue from column 0 on.
func scanQueue(s *sqlite.Stmt, q *queue) {
	if q.kind = s.ColumnText(0); q.kind == resizedKind {
		q.kind, q.resized = string(driver.Semaphore), true
	}
	q.capacity = s.ColumnInt64(1)
	q.last = q.number(s, 2)
	q.granted = q.number(s, 3)
	q.shift = q.number(s, 4)
	q.used = s.ColumnInt64(5)
	q.tickets = s.ColumnInt64(6)
	q.waiting = s.ColumnInt64(7)
	q.unclean = s.ColumnBool(8)
	q.version = s.ColumnInt64(9)
	q.watched = s.ColumnBool(10)
	q.since = moment(s.ColumnInt64(14))
	if !s.ColumnIsNull(11) {
		q.lone = &ticket{
			n:     q.granted,
			id:    s.ColumnText(11),
			units: s.ColumnInt64(12),
			sid:   s.ColumnInt64(13),
			since: q.since,
			note:  blob(s, 15),
		}
	}
}

// number reads what tokens are made of. SQLite would keep a value of any type there.
func (q *queue) number(s *sqlite.Stmt, col int) int64 {
	if n := s.ColumnInt64(col); s.ColumnType(col) == sqlite.TypeInteger && n >= 0 && n < driver.MaxToken {
		return n
	}
	q.unknown = true
	return 0
}

// queue reads a queue. One without a row is empty, and its numbers begin above
// those of the row that it may have had.
func (c conn) queue(name string) (*queue, error) {
	q := &queue{name: name}
	found, err := c.one("SELECT "+readQueue+" FROM queue WHERE name = ?", func(s *sqlite.Stmt) { scanQueue(s, q) }, name)
	if err == nil && !found {
		q.made = true
		q.version = ticks()
		_, err = c.one("SELECT floor FROM file", func(s *sqlite.Stmt) { q.last = q.number(s, 0) })
		q.granted = q.last
	}
	return q, err
}

// save writes a queue back and has the clients notified that watch it.
func (t *tx) save(q *queue) error {
	q.version++
	if q.watched {
		q.watched = false
		if err := t.notifyWatchers("queue", q.name, message{Queue: q.name, Changed: true}); err != nil {
			return err
		}
	}
	return t.store(q)
}

func (t *tx) store(q *queue) error {
	var id, last any = nil, q.last
	kind := q.kind
	if q.resized {
		kind = resizedKind
	}
	if q.unknown {
		last = "?"
	}
	p := ticket{since: q.since}
	if q.lone != nil {
		p, id = *q.lone, q.lone.id
	}
	sql := "UPDATE queue SET kind=?, capacity=?, last=?, granted=?, shift=?, used=?, tickets=?, waiting=?, unclean=?, version=?, watched=?, id=?, units=?, sid=?, since=?, note=? WHERE name=?"
	if q.made {
		sql = "INSERT INTO queue(" + queueColumns + ", name) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
	}
	err := t.exec(sql, kind, q.capacity, last, q.granted, q.shift, q.used, q.tickets, q.waiting, q.unclean, q.version, q.watched, id, p.units, p.sid, p.since, p.note, q.name)
	q.made = q.made && err != nil
	return err
}

const (
	ticketColumns = "n, id, units, sid, since, note, hold, ends, wall, flags, owner, token"
	readTicket    = "n, " + readID + ", units, sid, since, " + readNote + ", hold, ends, wall, flags, " + readOwner + ", token"
)

// scanTicket reads readTicket from column i on.
func scanTicket(s *sqlite.Stmt, i int, p *ticket) {
	p.n = s.ColumnInt64(i)
	p.id = s.ColumnText(i + 1)
	p.units = s.ColumnInt64(i + 2)
	p.sid = s.ColumnInt64(i + 3)
	p.since = moment(s.ColumnInt64(i + 4))
	p.note = blob(s, i+5)
	p.hold = time.Duration(s.ColumnInt64(i + 6))
	p.ends = moment(s.ColumnInt64(i + 7))
	p.wall = s.ColumnInt64(i + 8)
	p.flags = s.ColumnInt64(i + 9)
	p.owner = s.ColumnText(i + 10)
	p.token = s.ColumnInt64(i + 11)
}

// ticket finds a row by its number; nil if there is none.
func (c conn) ticket(q *queue, n int64) (*ticket, error) {
	if q.lone != nil {
		if q.lone.n == n {
			return q.lone, nil
		}
		return nil, nil
	}
	p := &ticket{}
	found, err := c.one("SELECT "+readTicket+" FROM ticket WHERE queue = ? AND n = ?", func(s *sqlite.Stmt) { scanTicket(s, 0, p) }, q.name, n)
	if err != nil || !found {
		return nil, err
	}
	return p, nil
}

// insert gives a ticket a row of its own.
func (t *tx) insert(q *queue, p *ticket) error {
	return t.exec("INSERT INTO ticket(queue, "+ticketColumns+") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
		q.name, p.n, p.id, p.units, p.sid, p.since, p.note, p.hold, orNull(p.ends), orNull(p.wall), p.flags, orNull(p.owner), orNull(p.token))
}

// update writes a ticket back, which gets a row of its own if it had none.
func (t *tx) update(q *queue, p *ticket) error {
	if q.lone == p {
		q.lone = nil
		return t.insert(q, p)
	}
	return t.exec("UPDATE ticket SET units=?, hold=?, ends=?, wall=?, flags=?, owner=?, token=? WHERE queue=? AND n=?",
		p.units, p.hold, orNull(p.ends), orNull(p.wall), p.flags, orNull(p.owner), orNull(p.token), q.name, p.n)
}

func orNull[T int64 | moment | string](v T) any {
	var none T
	if v == none {
		return nil
	}
	return v
}

// next gives out the number of a new ticket.
func (q *queue) next() (int64, error) {
	if q.unknown {
		return 0, q.back()
	}
	n := max(q.last+1, ticks()-q.shift)
	if n+q.shift >= driver.MaxToken {
		return 0, exchange.ErrTokens
	}
	q.last = n
	return n, nil
}

// back is the error for a queue whose tokens could go back.
func (q *queue) back() error {
	what, name := "the last token", "NAME"
	if q.made {
		what, name = "the floor of all tokens", "--all"
	}
	return driver.Permanent(fmt.Errorf("sqlite: %s cannot be read, so that the tokens of %q could go back (interlock admin raise-token %s FLOOR writes it anew, with a FLOOR above all tokens that were granted)", what, q.name, name))
}

func (q *queue) held(p *ticket) bool { return p.n <= q.granted }

func (q *queue) token(p *ticket) uint64 {
	switch {
	case !q.held(p):
		return 0
	case p.token != 0:
		return uint64(p.token)
	}
	return uint64(p.n + q.shift)
}

// fits reports whether a new ticket of these units would be held at once.
func (q *queue) fits(units int64) bool { return q.waiting == 0 && units <= q.capacity-q.used }

// add puts a ticket at the end.
func (t *tx) add(q *queue, p *ticket) error {
	held := q.fits(p.units)
	if q.lone != nil {
		if err := t.insert(q, q.lone); err != nil {
			return err
		}
		q.lone = nil
	}
	q.tickets++
	if held {
		q.granted = p.n
		q.used += p.units
		if p.hold > 0 {
			t.fix(p, p.hold)
		}
	} else {
		if q.waiting == 0 {
			if err := t.notifyHolders(q); err != nil {
				return err
			}
		}
		q.waiting++
	}
	if held && q.tickets == 1 && p.hold == 0 {
		q.lone, q.since = p, p.since
		return nil
	}
	return t.insert(q, p)
}

// exclusive: a ticket that is held, and no other beside it.
func (q *queue) exclusive(p *ticket) bool { return p.units >= q.capacity && p.units == q.used }

// remove takes a ticket out. The caller grants the next waiters and saves.
func (t *tx) remove(q *queue, p *ticket, clean bool) error {
	if q.lone == p {
		q.lone = nil
	} else if err := t.exec("DELETE FROM ticket WHERE queue = ? AND n = ?", q.name, p.n); err != nil {
		return err
	}
	q.tickets--
	if q.held(p) {
		if q.exclusive(p) {
			q.unclean = !clean
		}
		q.used -= p.units
	} else {
		q.waiting--
	}
	if q.tickets == 0 {
		q.last += q.shift
		q.granted, q.shift = q.last, 0
	}
	return nil
}

// batch bounds the grants and removals of one transaction.
const batch = 100

// grant makes holders of the waiters that fit now, in order, and takes out those that have expired:
// the fixed time of a grant would have a dead session hold for long. If many do, the rest is left
// for another exchange.
func (t *tx) grant(q *queue) error {
	for room := batch; !q.unknown && q.waiting > 0 && q.used < q.capacity; {
		in, more, err := t.fitting(q)
		if err != nil || len(in) == 0 {
			return err
		}
		dead := 0
		for i := range in {
			gone, err := t.removeExpired(q, &in[i])
			if err != nil {
				return err
			}
			if gone {
				dead++
			}
		}
		if dead == 0 {
			return t.admit(q, in, more)
		}
		if room -= dead; room <= 0 {
			t.unfinished = append(t.unfinished, q.name)
			return nil
		}
	}
	return nil
}

// fitting are the waiters that fit now, and whether there are more.
func (t *tx) fitting(q *queue) (in []ticket, more bool, err error) {
	used := q.used
	err = t.all("SELECT "+readTicket+" FROM ticket WHERE queue = ? AND n > ? ORDER BY n", func(s *sqlite.Stmt) bool {
		var p ticket
		scanTicket(s, 0, &p)
		if p.units > q.capacity-used {
			return false
		}
		if len(in) == batch {
			more = true
			return false
		}
		used += p.units
		in = append(in, p)
		return true
	}, q.name, q.granted)
	return in, more, err
}

// admit makes holders of waiters.
func (t *tx) admit(q *queue, in []ticket, more bool) error {
	for _, p := range in {
		q.used += p.units
	}
	q.granted = in[len(in)-1].n
	q.waiting -= int64(len(in))
	if more {
		t.unfinished = append(t.unfinished, q.name)
	}
	for i := range in {
		p := &in[i]
		if p.hold > 0 {
			t.fix(p, p.hold)
			if err := t.update(q, p); err != nil {
				return err
			}
		}
		m := t.notify(p.sid, q.name)
		m.Granted = append(m.Granted, p.n)
		m.Shift, m.Inherited, m.Wanted = q.shift, q.unclean, q.waiting > 0 && !more
	}
	return nil
}

// resume goes on with grants that were too many for one transaction.
func (t *tx) resume(name string) error {
	q, err := t.queue(name)
	if err != nil {
		return err
	}
	before := *q
	if err := t.grant(q); err != nil || q.granted == before.granted && q.tickets == before.tickets {
		return err
	}
	return t.save(q)
}

// fix gives a held ticket an end of its own. The caller writes it.
func (t *tx) fix(p *ticket, in time.Duration) {
	p.hold = in
	p.ends = t.now.add(in)
	p.wall = time.Now().Add(in).UnixNano()
	p.flags = p.flags&^stray | fixed
	t.lasting = true
}

// notifyFirst has the first waiter notified when a ticket in front of it ends.
func (t *tx) notifyFirst(q *queue, ends moment) error {
	if q.waiting == 0 {
		return nil
	}
	_, err := t.one("SELECT sid FROM ticket WHERE queue = ? AND n > ? ORDER BY n LIMIT 1", func(s *sqlite.Stmt) {
		t.notify(s.ColumnInt64(0), q.name).Ends = ends
	}, q.name, q.granted)
	return err
}

// notifyHolders has the holders notified that a waiter has come. Those beyond the first hundred
// hear it with their next heartbeat.
func (t *tx) notifyHolders(q *queue) error {
	if q.lone != nil {
		m := t.notify(q.lone.sid, q.name)
		m.Want = append(m.Want, q.lone.n)
		return nil
	}
	return t.all("SELECT n, sid FROM ticket WHERE queue = ? AND n <= ? ORDER BY n LIMIT 100", func(s *sqlite.Stmt) bool {
		m := t.notify(s.ColumnInt64(1), q.name)
		m.Want = append(m.Want, s.ColumnInt64(0))
		return true
	}, q.name, q.granted)
}
