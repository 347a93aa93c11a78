package rows

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Codec writes the fields of a row one after the other, or reads them in the same order. What it reads may have been
// written by anybody who shares the rows: names of sessions and mailboxes, by which files are called, are checked.
type Codec struct {
	Out   []byte
	In    string
	Reads bool
	Err   error
}

// The errors of a Codec.
var (
	ErrDamaged = errors.New("the row is not whole")
	ErrTooLong = errors.New("the row is too long: too many wait, or follow")
)

// MaxList is how many entries a list has at most.
const MaxList = 100_000

func (c *Codec) short() { c.In, c.Err = "", ErrDamaged }

// Number is a field.
func Number[T ~int | ~int64 | ~uint8 | ~uint64](c *Codec, v *T) {
	if !c.Reads {
		c.Out = binary.AppendUvarint(c.Out, uint64(*v))
		return
	}
	var n uint64
	for i := range min(len(c.In), binary.MaxVarintLen64) {
		n |= uint64(c.In[i]&0x7f) << (7 * i)
		if c.In[i] < 0x80 {
			c.In, *v = c.In[i+1:], T(n)
			return
		}
	}
	c.short()
}

// Text is a field.
func Text[T ~string | ~[]byte](c *Codec, v *T) {
	size := len(*v)
	Number(c, &size)
	switch {
	case !c.Reads:
		c.Out = append(c.Out, *v...)
	case size < 0 || size > len(c.In):
		c.short()
	default:
		*v, c.In = T(c.In[:size]), c.In[size:]
	}
}

// Flag is a field.
func Flag(c *Codec, v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	Number(c, &n)
	*v = n == 1
}

// Time is a field.
func Time(c *Codec, v *time.Time) {
	n := int64(0)
	if !v.IsZero() {
		n = v.UnixNano()
	}
	Number(c, &n)
	*v = time.Unix(0, n)
}

// list takes room for as many entries as the rest can have: who shares the rows can write any number in front of it.
func list[T any](c *Codec, all *[]T, each func(*Codec, *T)) {
	size := len(*all)
	Number(c, &size)
	if size < 0 || size > MaxList {
		if c.short(); !c.Reads {
			c.Err = ErrTooLong
		}
	}
	if c.Reads {
		if *all = nil; size > 0 && c.Err == nil {
			*all = make([]T, 0, min(size, len(c.In)+1))
		}
	}
	for i := 0; i < size && c.Err == nil; i++ {
		if c.Reads {
			*all = (*all)[:i+1]
		}
		each(c, &(*all)[i])
	}
}

// table is list for a map.
func table[V any](c *Codec, all *map[string]V, each func(c *Codec, key *string, of *V)) {
	type entry struct {
		key string
		of  V
	}
	var entries []entry
	for key, of := range *all {
		entries = append(entries, entry{key, of})
	}
	list(c, &entries, func(c *Codec, e *entry) { each(c, &e.key, &e.of) })
	if c.Reads && len(entries) > 0 {
		*all = make(map[string]V, len(entries))
	}
	for _, e := range entries {
		(*all)[e.key] = e.of
	}
}

func session(c *Codec, v *string) {
	if Text(c, v); c.Reads && !exchange.IsID(*v) {
		c.short()
	}
}

// mailbox may be none.
func mailbox(c *Codec, v *string) {
	if Text(c, v); c.Reads && *v != "" && !exchange.IsMailbox(*v) {
		c.short()
	}
}

// Fields are those of a queue. A Store can have more, which stand in their midst.
func (q *Queue) Fields(c *Codec, more func()) {
	Text(c, &q.Name)
	Text(c, &q.Kind)
	Flag(c, &q.Resized)
	Number(c, &q.Capacity)
	Number(c, &q.Token)
	Flag(c, &q.Unclean)
	more()
	Time(c, &q.Written)
	Time(c, &q.Wall)
	list(c, &q.Followers, mailbox)
	table(c, &q.Tombstones, func(c *Codec, id *string, b *Tombstone) {
		Text(c, id)
		Flag(c, &b.Removed)
		Time(c, &b.End)
	})
	var made []Ticket
	list(c, &q.Tickets, func(c *Codec, t **Ticket) {
		if c.Reads {
			if made == nil {
				made = make([]Ticket, min(cap(q.Tickets), len(c.In)/shortestTicket+1))
			}
			*t, made = &made[0], made[1:]
		}
		(*t).Fields(c)
	})
}

// shortestTicket is less than the bytes of any: the ID of its session has 32.
const shortestTicket = 50

// Fields are those of a ticket.
func (t *Ticket) Fields(c *Codec) {
	Text(c, &t.ID)
	Number(c, &t.Units)
	session(c, &t.Session.ID)
	Number(c, &t.Session.TTL)
	Text(c, &t.Session.Owner)
	mailbox(c, &t.Session.Mailbox)
	Number(c, &t.HoldFor)
	Text(c, &t.Note)
	Time(c, &t.Since)
	Flag(c, &t.Held)
	Number(c, &t.PID)
	Number(c, &t.Token)
	Flag(c, &t.Inherited)
	Flag(c, &t.Fixed)
	Number(c, &t.Hold)
	Time(c, &t.End)
	Flag(c, &t.Revoked)
	Flag(c, &t.Evicted)
}

// Fields are those of a cell.
func (r *Cell) Fields(c *Codec) {
	Text(c, &r.Name)
	value(c, &r.Cell)
	list(c, &r.Followers, mailbox)
	table(c, &r.Swaps, func(c *Codec, id *string, s *Swapped) {
		Text(c, id)
		value(c, &s.Cell)
		Flag(c, &s.Conflict)
		Time(c, &s.End)
	})
}

func value(c *Codec, v *driver.Cell) {
	Number(c, &v.Version)
	Flag(c, &v.Exists)
	Text(c, &v.Value)
}
