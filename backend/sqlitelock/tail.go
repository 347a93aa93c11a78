package sqlitelock

import (
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange/rows"
	"zombiezen.com/go/sqlite"
)

// tail has the last tickets of a long queue: see rows.Tail. Each has a row, whose number is larger than those in front.
type tail struct {
	conn
	queue   string
	writes  bool  // else it is a look, whose outcome is not written
	taken   int64 // the number of the last that First has taken out: in a look its row is still there
	numbers map[*rows.Ticket]int64
	err     error
}

func (l *tail) First() []*rows.Ticket {
	all := l.read("ORDER BY n LIMIT 4")
	if len(all) > 0 {
		l.taken = l.numbers[all[len(all)-1]]
		l.write("DELETE FROM ticket WHERE queue = ? AND n <= ?", l.queue, l.taken)
	}
	return all
}

func (l *tail) All() []*rows.Ticket { return l.read("ORDER BY n") }

func (l *tail) Find(id string) *rows.Ticket {
	if all := l.read("AND id = ?", id); len(all) > 0 {
		return all[0]
	}
	return nil
}

func (l *tail) Add(t *rows.Ticket) {
	t.Since = time.Now()
	l.write("INSERT INTO ticket(queue, n, id, data) SELECT ?1, coalesce(max(n), 0) + 1, ?2, ?3 FROM ticket WHERE queue = ?1", l.queue, t.ID, written(t))
}

func (l *tail) Save(t *rows.Ticket) {
	l.write("UPDATE ticket SET data = ? WHERE queue = ? AND n = ?", written(t), l.queue, l.numbers[t])
}

func (l *tail) Remove(t *rows.Ticket) {
	l.write("DELETE FROM ticket WHERE queue = ? AND n = ?", l.queue, l.numbers[t])
}

func written(t *rows.Ticket) []byte {
	var out rows.Codec
	t.Fields(&out)
	return out.Out
}

// read reads the tickets that the rest of the question asks for.
func (l *tail) read(which string, args ...any) (all []*rows.Ticket) {
	if l.numbers == nil {
		l.numbers = map[*rows.Ticket]int64{}
	}
	err := l.all("SELECT n, "+data+" FROM ticket WHERE queue = ? AND n > ? "+which, func(r *sqlite.Stmt) bool {
		t, in := &rows.Ticket{}, codecOf(r, 1)
		if t.Fields(&in); in.Err != nil || t.Held || t.Fixed {
			l.fail(damaged(l.queue))
			return false
		}
		l.numbers[t] = r.ColumnInt64(0)
		all = append(all, t)
		return true
	}, append([]any{l.queue, l.taken}, args...)...)
	if err != nil {
		l.fail(err)
	}
	return all
}

func (l *tail) write(sql string, args ...any) {
	if l.writes {
		if err := l.exec(sql, args...); err != nil {
			l.fail(err)
		}
	}
}

func (l *tail) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// damaged is the error for a queue with a row that cannot be read.
func damaged(name string) error {
	return driver.Permanent(fmt.Errorf("sqlite: %w, so that the tokens of %q could go back (interlock admin raise-token %[2]s FLOOR writes it anew, with a FLOOR above all tokens that were granted)", errRow, name))
}
