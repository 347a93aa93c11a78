//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/rows"
)

func newPage(t *testing.T) *page {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	f, err := root.OpenFile("row", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &page{handle: handle{file: f, root: root}}
}

// reads reads the row as a program would that has just opened the file.
func (p *page) reads(t *testing.T, boot uint64) string {
	t.Helper()
	other := &page{handle: p.handle}
	text, err := other.read(boot)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (p *page) writes(t *testing.T, text string, durable bool) {
	t.Helper()
	if err := p.tryWrite(text, durable); err != nil {
		t.Fatal(err)
	}
}

func (p *page) tryWrite(text string, durable bool) error {
	if _, err := p.read(1); err != nil {
		return err
	}
	return p.write(append(make([]byte, headSize), text...), 1, durable)
}

// cutAfter has the process die, as it were, when it has written so many bytes.
func cutAfter(t *testing.T, left int) (died *bool, restore func()) {
	died = new(bool)
	old := writeAt
	writeAt = func(f *os.File, data []byte, at int64) (int, error) {
		if *died {
			t.Error("the dead writes")
		}
		if *died = len(data) > left; *died {
			data = data[:left]
		}
		left -= len(data)
		n, err := f.WriteAt(data, at)
		if *died {
			err = errors.New("killed")
		}
		return n, err
	}
	return died, func() { writeAt = old }
}

// Promise: a crash at any byte leaves the old row or the new one, and the next transaction goes on.
func TestACrashAtAnyByteLeavesTheOldRowOrTheNewOne(t *testing.T) {
	short, long := strings.Repeat("s", 40), strings.Repeat("l", 1200)
	for _, before := range [][]string{{}, {short}, {long}, {short, long}, {long, long}, {"durable " + short, long}, {"durable " + long, short, long}} {
		for _, next := range []string{"new " + short, "new " + long, "durable " + long} {
			p := newPage(t)
			old := ""
			for _, old = range before {
				p.writes(t, old, strings.HasPrefix(old, "durable"))
			}
			was, err := os.ReadFile(p.file.Name())
			if err != nil {
				t.Fatal(err)
			}
			step := 1
			if len(before) != 3 { // at each length in one case, and here and there in the others
				step = 13
			}
			for n, done := 0, false; !done; n += step {
				_, err := p.file.WriteAt(was, 0)
				if err := errors.Join(err, p.file.Truncate(int64(len(was)))); err != nil {
					t.Fatal(err)
				}
				died, restore := cutAfter(t, n)
				err = p.tryWrite(next, strings.HasPrefix(next, "durable") && n == 0)
				restore()
				if done = !*died; done && err != nil {
					t.Fatal(err)
				}
				if got := p.reads(t, 1); got != old && got != next || done && got != next {
					t.Fatalf("after %d bytes of %.11q, on %d rows: %.11q, before it was %.11q", n, next, len(before), got, old)
				}
				p.writes(t, "after that", false)
				if got := p.reads(t, 1); got != "after that" {
					t.Fatalf("after %d bytes of %.11q, on %d rows, the next row is not written: %.11q", n, next, len(before), got)
				}
			}
		}
	}
}

// Promise: a long row is written beside the one that it replaces, in a file of bounded size.
func TestLongRowsTakeTurns(t *testing.T) {
	p := newPage(t)
	const size = 10_000
	for i := range 100 {
		want := strings.Repeat(string(rune('a'+i%26)), size-i)
		p.writes(t, want, i%7 == 0)
		if got := p.reads(t, 1); got != want {
			t.Fatalf("row %d: %.3q", i, got)
		}
	}
	if st, err := p.file.Stat(); err != nil || st.Size() > 6*size {
		t.Errorf("the file has %d bytes, %v", st.Size(), err)
	}
}

// Promise: what was durable is whole after a power loss, and what it has damaged otherwise is no
// more. In the same boot a damage is an error.
func TestAPowerLossLeavesWhatWasDurable(t *testing.T) {
	for _, durable := range []string{"durable", "durable " + strings.Repeat("long", 300), ""} {
		p := newPage(t)
		if durable != "" {
			p.writes(t, durable, true)
		}
		for i := range 5 {
			p.writes(t, strings.Repeat("x", 1+i), false)
		}
		for _, at := range []int64{headSize, slotSize + headSize} { // the texts of the two that are not
			if _, err := p.file.WriteAt([]byte("torn"), at); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.reads(t, 2); got != durable {
			t.Errorf("the row is %.11q, want %.11q", got, durable)
		}
		if _, err := (&page{handle: p.handle}).read(1); durable == "" && !errors.Is(err, rows.ErrDamaged) {
			t.Errorf("in the same boot: %v", err)
		}
	}
}

// Promise: a row is read as it was written, also by a client of another release, which may run beside this one: the
// format stays. Garbage is an error, and no crash.
func TestRowsAreReadAsTheyWereWritten(t *testing.T) {
	const written = "01780772776d7574657800808080800480808080808080020185a094a58d1d85a094a58d1d050222696e7465726c6f636b" +
		"5f61316131613161316131613161316131613161316131613100010269640085a094a58d1d020174012035653565356535" +
		"653565356535653565356535653565356535653565356535658094ebdc0302c3b622696e7465726c6f636b5f61316131" +
		"613161316131613161316131613161316131613180b09dc2df01016e8294ebdc0301e72409010180b09dc2df0185a0" +
		"94a58d1d01000175022035653565356535653565356535653565356535653565356535653565356535658094ebdc0302" +
		"c3b622696e7465726c6f636b5f61316131613161316131613161316131613161316131613180c0e285e3680085a094a5" +
		"8d1d01000a00000085a094a58d1d0001"
	id, mail := strings.Repeat("5e", 16), "interlock_"+strings.Repeat("a1", 12)
	now := time.Unix(1000, 5)
	of := exchange.Session{ID: id, TTL: time.Second, Owner: "ö", Mailbox: mail}
	want := &queue{Queue: rows.Queue{Name: "x", Kind: driver.RWMutex, Capacity: driver.RWCapacity, Token: 1 << 50, Unclean: true,
		Followers: []string{mail, ""}, Tombstones: map[string]rows.Tombstone{"id": {End: now}}, Tickets: []*rows.Ticket{
			{ID: "t", Units: 1, Session: of, HoldFor: time.Minute, Note: []byte("n"), Since: time.Unix(1, 2), Held: true,
				Token: 9, Inherited: true, Fixed: true, Hold: time.Minute, End: now, Revoked: true, PID: 4711},
			{ID: "u", Units: 2, Session: of, HoldFor: time.Hour, Note: []byte{}, Since: now, End: now, Held: true, Token: 10, Evicted: true}},
		Written: now, Wall: time.Unix(0, 5)}, Unlocking: now}
	text, err := hex.DecodeString(written)
	if err != nil {
		t.Fatal(err)
	}
	got, in := &queue{}, rows.Codec{In: string(text), Reads: true}
	got.fields(&in)
	if in.Err != nil || in.In != "" || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %d bytes left:\n%+v\n%+v", in.Err, len(in.In), got, want)
	}
	var out rows.Codec
	if got.fields(&out); !bytes.Equal(out.Out, text) {
		t.Errorf("it is written as\n%x", out.Out)
	}
	taken := &queue{Queue: rows.Queue{Name: "x", Tombstones: map[string]rows.Tombstone{"id": {End: now, Removed: true}, "other": {End: now}}}}
	out = rows.Codec{}
	taken.fields(&out)
	again := &queue{}
	in = rows.Codec{In: string(out.Out), Reads: true}
	if again.fields(&in); in.Err != nil || !reflect.DeepEqual(again.Tombstones, taken.Tombstones) {
		t.Errorf("%v, read as %+v", in.Err, again.Tombstones)
	}
	for n := range text {
		in := rows.Codec{In: string(text[:n]), Reads: true}
		if new(queue).fields(&in); in.Err == nil {
			t.Fatalf("%d bytes of %d are a row", n, len(text))
		}
		wild := bytes.Clone(text)
		wild[n] ^= 0x81
		in = rows.Codec{In: string(wild), Reads: true}
		new(queue).fields(&in)
	}
}

// Promise: who has missed the event reads in the row that its ticket was taken out, also in one that was read from its
// file.
func TestWhoWasEvictedByForceReadsSo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	s, locks, closes := session(t, dir)
	defer closes()
	other, _, closesOther := session(t, dir)
	defer closesOther()
	ticket, err := locks.Join(t.Context(), request("q"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Ask(t.Context(), "q", ticket.ID, driver.Force); err != nil {
		t.Fatal(err)
	}
	st, err := s.Look(t.Context(), exchange.Session{ID: strings.Repeat("5e", 16)}, []exchange.Ref{{Queue: "q", ID: ticket.ID}})
	if err != nil || st[0].State != exchange.Gone || !st[0].Evicted {
		t.Errorf("%+v, %v, want it gone and evicted", st, err)
	}
}
