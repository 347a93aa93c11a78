package filelock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

// frugal fails if f takes more memory than a row can need.
func frugal(t *testing.T, what string, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8*maxRow {
		t.Errorf("%s takes %d MiB", what, took>>20)
	}
}

// Promise: no row takes all memory: not a file that is longer than any row, nor lists that say that they are long.
func TestNoRowTakesAllMemory(t *testing.T) {
	p := newPage(t)
	p.writes(t, "short", false)
	h := head{version: 9, at: pageSize, size: 1 << 39}
	b := make([]byte, headSize)
	h.put(b)
	if _, err := p.file.WriteAt(b, slotSize); err != nil {
		t.Fatal(err)
	}
	if err := p.file.Truncate(1 << 40); err != nil {
		t.Skip("no files with holes:", err)
	}
	frugal(t, "a file of a terabyte", func() {
		if got := p.reads(t, 1); got != "short" {
			t.Errorf("the row is %q", got)
		}
	})
	long := binary.AppendUvarint(nil, 8<<20)
	for at := range 3 {
		text := append([]byte("\x00\x00\x00\x00\x00\x00\x00\x00"), make([]byte, at)...)
		text = append(append(text, long...), make([]byte, 8<<20)...)
		frugal(t, "a list of 8 million", func() {
			c := rows.Codec{In: string(text), Reads: true}
			new(queue).fields(&c)
		})
	}
}

// Promise: what is too long to be read is not written, and a Join is refused before that.
func TestARowHasBounds(t *testing.T) {
	s, session, _ := session(t, filepath.Join(t.TempDir(), "locks"))
	full := &queue{Queue: rows.Queue{Name: "q", Kind: driver.Semaphore, Capacity: 1}}
	for range rows.MaxList {
		full.Tickets = append(full.Tickets, &rows.Ticket{ID: "t", Units: 1, Session: exchange.Session{ID: exchange.NewID()}, End: time.Unix(1<<32, 0)})
	}
	harm(t, s, queues, "q", full)
	if _, err := session.Join(t.Context(), request("q")); !errors.Is(err, rows.ErrTooLong) {
		t.Errorf("a Join: %v", err)
	}
	full.Tickets = append(full.Tickets, full.Tickets[0])
	c := rows.Codec{}
	if full.fields(&c); c.Err == nil {
		t.Error("a row was written that cannot be read")
	}
}

// Promise: whatever a file has in it, no reader of rows crashes, waits, or takes more memory than a row can have.
func FuzzRow(f *testing.F) {
	var out rows.Codec
	id := exchange.NewID()
	(&queue{Queue: rows.Queue{Name: "q", Kind: driver.Mutex, Capacity: 1, Followers: []string{exchange.NewMailbox()},
		Tombstones: map[string]rows.Tombstone{"t": {}},
		Tickets:    []*rows.Ticket{{ID: "t", Units: 1, Session: exchange.Session{ID: id}, Since: time.Unix(1, 0)}}}}).fields(&out)
	f.Add(out.Out)
	f.Add(bytes.Repeat([]byte{0xff}, pageSize))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newPage(t)
		frugal(t, "it", func() {
			for _, at := range []int64{0, headSize, pageSize} { // as a page, as the text of its first slot, and as a long one
				_ = p.file.Truncate(0)
				h := head{version: 1, at: uint64(at), size: uint64(len(data))}
				page := make([]byte, pageSize)
				h.put(page)
				h.sums = sum(page, data)
				h.put(page)
				_, _ = p.file.WriteAt(page, 0)
				_, _ = p.file.WriteAt(data, at)
				text, err := p.read(1)
				if err != nil || text == nil {
					continue
				}
				for _, r := range []row{new(queue), new(cell), new(titled)} {
					c := rows.Codec{In: string(text), Reads: true}
					r.fields(&c)
				}
			}
		})
	})
}

// Promise: whatever a member sends to a mailbox, the client goes on.
func FuzzMailbox(f *testing.F) {
	f.Add([]byte(`{"Event":{"Type":1,"ID":"t","Queue":"q","Status":{"Token":1}}}`))
	f.Add([]byte(`{"Event":{"Type":4,"Number":18446744073709551615,"Cell":"c","Topic":3}}`))
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	s, err := openStore(filepath.Join(dir, "locks"), defaultMode)
	if err != nil {
		f.Fatal(err)
	}
	d := exchange.New(s, s.mailbox)
	f.Cleanup(func() { d.Close() })
	o, err := d.Open(f.Context(), driver.SessionOptions{TTL: time.Hour})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := o.Join(f.Context(), driver.Request{ID: "t", Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) { s.open(data) })
}
