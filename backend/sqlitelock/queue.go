package sqlitelock

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"zombiezen.com/go/sqlite"
)

// queue is the row of a queue, in an exchange. Times of the rows are those of the file; only tokens, Since and Wall
// follow the wall clock.
type queue struct {
	rows.Queue
	boot uint64 // of the machine, when the row was written
	row  int64  // where it is; 0: there is none
	tail tail
}

func (q *queue) fields(c *rows.Codec) {
	q.Fields(c, func() {
		rows.Number(c, &q.boot)
		rows.Number(c, &q.Behind)
	})
}

// named is true of a row whose name a client can have given. The others belong to no lock: a blob
// sorts behind all texts, so that a list that goes on behind its text begins anew, and a text can
// be as long as the file.
const named = "typeof(name) = 'text' AND octet_length(name) <= 528"

// data is read of a row, unless it is longer than anything that is written here: a member of the file's group could
// take the memory of all who look.
const data = "iif(typeof(data) = 'blob' AND octet_length(data) <= 33554432, data, x'')"

// maxRow is less than that.
const maxRow = 16 << 20

// errRow is the error for a queue whose row is damaged. The others can be used.
var errRow = errors.New("the row is damaged")

// queue reads a queue, and settles it. One without a row is empty, and its tokens are above those of the row that it
// may have had. It is a look, unless it writes.
func (c conn) queue(s *store, name string, now time.Time, writes bool) (*queue, error) {
	q := &queue{}
	var wrong error
	err := c.one("SELECT rowid, "+data+" FROM queue WHERE name = ?", func(r *sqlite.Stmt) { wrong = q.scan(r, name) }, name)
	if err == nil {
		err = wrong
	}
	if err == nil && q.row == 0 {
		q.boot, err = s.boot, c.floor(name, &q.Token)
	}
	if err == nil {
		err = q.settle(c, s, name, now, writes)
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// scan reads the row of a queue.
func (q *queue) scan(r *sqlite.Stmt, name string) error {
	q.row = r.ColumnInt64(0)
	in := codecOf(r, 1)
	if q.fields(&in); in.Err != nil || q.Name != name || q.Token >= driver.MaxToken || q.Behind < 0 {
		return damaged(name)
	}
	return nil
}

func codecOf(r *sqlite.Stmt, col int) rows.Codec {
	b := make([]byte, r.ColumnLen(col))
	r.ColumnBytes(col, b)
	return rows.Codec{In: string(b), Reads: true}
}

func (q *queue) settle(c conn, s *store, name string, now time.Time, writes bool) error {
	q.Name, q.tail = name, tail{conn: c, queue: name, writes: writes}
	q.Tail = &q.tail
	if q.boot != s.boot {
		q.Reboot(now)
		if q.Behind > 0 {
			q.tail.write("DELETE FROM ticket WHERE queue = ?", name)
			q.Behind = 0
		}
	}
	q.Token = max(q.Token, clockToken()-1)
	rows.Begin(q, now)
	return q.tail.err
}

// floor reads the token above which a new queue begins.
func (c conn) floor(name string, at *uint64) (err error) {
	var wrong error
	err = c.one("SELECT floor FROM file", func(r *sqlite.Stmt) {
		n := r.ColumnInt64(0)
		if *at = uint64(n); r.ColumnType(0) != sqlite.TypeInteger || n < 0 || n >= driver.MaxToken {
			wrong = driver.Permanent(fmt.Errorf("sqlite: the floor of all tokens cannot be read, so that the tokens of %q could go back (interlock admin raise-token --all FLOOR writes it anew, with a FLOOR above all tokens that were granted)", name))
		}
	})
	if err == nil {
		err = wrong
	}
	return err
}

// queue reads a queue, once in a transaction.
func (t *tx) queue(name string) (*queue, error) {
	for _, q := range t.queues {
		if q.Name == name {
			return q, nil
		}
	}
	q, err := t.conn.queue(t.s, name, t.now, true)
	if err == nil {
		t.queues = append(t.queues, q)
	}
	return q, err
}

// save writes the queues that have changed.
func (t *tx) save() error {
	for _, q := range t.queues {
		if errors.Is(q.tail.err, errRow) { // nothing is made of it
			continue
		}
		if err := cmp.Or(q.tail.err, t.saveQueue(q)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) saveQueue(q *queue) (err error) {
	for _, ev := range q.Events {
		if ev.Type == exchange.Granted { // a power loss would take it back
			t.lasting = t.lasting || ev.Status.Fixed || ev.Status.Token > clockToken()
		}
		ev.Queue = q.Name
		t.events = append(t.events, ev)
	}
	if !q.Changed {
		return nil
	}
	q.boot, q.Written, q.Wall = t.s.boot, t.now, time.Now()
	out := rows.Codec{Out: t.s.file.out[:0]}
	if q.fields(&out); out.Err == nil && len(out.Out) > maxRow {
		out.Err = rows.ErrTooLong
	}
	if out.Err != nil {
		return driver.Permanent(out.Err)
	}
	for len(out.Out)%padding != 0 {
		out.Out = append(out.Out, 0)
	}
	if t.s.file.out = out.Out; cap(out.Out) > maxRow/16 {
		t.s.file.out = nil
	}
	if q.row == 0 {
		if err = t.exec("INSERT INTO queue(name, data) VALUES (?,?)", q.Name, out.Out); err == nil {
			q.row = t.LastInsertRowID()
		}
		return err
	}
	return t.exec("UPDATE queue SET data = ? WHERE rowid = ?", out.Out, q.row)
}

// padding makes the row of a queue as long as it was, most often: then SQLite writes it where it stands.
const padding = 256
