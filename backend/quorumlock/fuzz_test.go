package quorumlock

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
)

// Promise: whatever the note of a place is, the place belongs to one ticket, whose ID has the form of ours, or
// stands for itself.
func FuzzNote(f *testing.F) {
	const id = "0123456789abcdef0123456789abcdef"
	for _, note := range []string{"", " ", id, id + " ", id + " a note", strings.ToUpper(id) + " a", id[1:] + " a", "../../etc/passwd a", "\x00 \xff", id + "\u00a0x"} {
		f.Add([]byte(note))
	}
	f.Fuzz(func(t *testing.T, note []byte) {
		m := driver.Member{ID: "its own", Note: note}
		id, rest, ok := ticketOf(m)
		switch {
		case ok && (driver.CheckID(id) != nil || string(note) != id+" "+string(rest)):
			t.Errorf("%q: %q, %q", note, id, rest)
		case !ok && (id != m.ID || string(rest) != string(note)):
			t.Errorf("%q is of no ticket: %q, %q", note, id, rest)
		}
	})
}

// Promise: whatever a member has in its cells, no client waits for longer than any TTL may be, and uses no name that it
// has not made itself.
func FuzzCells(f *testing.F) {
	for _, value := range []string{"", "0", "-1", "15000000000", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "1e9", "0123456789abcdef0123456789abcdef", "../x", "\x00"} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		c := driver.Cell{Exists: true, Value: value}
		if ttl := parseTTL(c); ttl < 0 || ttl > longestTTL {
			t.Errorf("the TTL %q: %v", value, ttl)
		}
		life, err := parseLife(c)
		if err != nil {
			return
		}
		for _, cell := range []string{begunCell(life), soundCell(life)} {
			if err := driver.CheckCell(cell); err != nil {
				t.Errorf("the life %q: %v", value, err)
			}
		}
		if err := driver.CheckName(ripening(life)); err != nil {
			t.Errorf("the life %q: %v", value, err)
		}
	})
}

// Promise: a version is the same as itself, and two are the same in both directions.
func FuzzVersions(f *testing.F) {
	for _, v := range []string{"", "empty", "a.1", "a.1.2", "a.", "a.9223372036854775807", "a.-9223372036854775808", "a.x"} {
		f.Add(v, "a.101")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if same(a, b) != same(b, a) {
			t.Errorf("%q and %q", a, b)
		}
	})
}
