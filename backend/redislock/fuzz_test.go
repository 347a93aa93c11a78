package redislock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/follow"
)

// Promise: whatever the record of a ticket is, it is read without harm, and what is none is an
// error.
func FuzzRecord(f *testing.F) {
	numbers := strings.Repeat("\x40\x08\x00\x00\x00\x00\x00\x00", 7)
	for _, packed := range []string{
		"", numbers, numbers + "\x00\x00\x00", numbers + "if\x00session\x00 owner%3A1 note\x00", numbers + "\x00\x00%zz %\x00", numbers + "\x00\x00\x00\x00",
		strings.Repeat("\xff", 56) + "\x00\x00\x00", strings.Repeat("\x7f\xf0\x00\x00\x00\x00\x00\x00", 7) + "f\x00s\x00o n\x00", numbers[:55],
	} {
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, packed string) {
		m, _, err := decodeRecord(packed)
		if err == nil && (len(packed) < 56 || strings.Count(packed[56:], "\x00") != 3) {
			t.Errorf("%q is read as %+v", packed, m)
		}
	})
}

// Promise: whatever is published to a client, it is heard without harm, and grants nothing unless it proves
// that its sender knows the ticket; then the token is one that can be. What proves nothing, as scripts of an
// earlier release send it, has the client look.
func FuzzHear(f *testing.F) {
	for _, message := range []string{
		"", " ", "7", "7 5", "7 5 i", "7 5 iw:", "7 5 iw:00000000000000000000 1700000000000000", "-7 5 i:", "7 9223372036854775808 i:",
		"w 7 7 7", "w", "r 7", "e 7", "x 7", "l 7", "f 7", "f", "p 7", "p 18446744073709551616", "l 7\x00", "z 7",
		"7 5 i:79b7bbaf1c3e8d4bd6f1",
	} {
		f.Add(message)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel() // so that it asks no server
	f.Fuzz(func(t *testing.T, message string) {
		for _, was := range []state{unknown, waiting, held, gone} {
			d := &Driver{ctx: over, config: &config{}, places: map[uint64]*place{}}
			d.topics = follow.New(d.usable, over.Done())
			s := newSession(d, "s", time.Second, "o")
			p := &place{number: 7, id: "ticket", q: &queue{name: "q"}, s: s, state: was}
			if was == held {
				p.token = 3
			}
			d.places[p.number] = p
			d.hear(message)
			_, flags, _ := strings.Cut(message, ":")
			proof, _, _ := strings.Cut(flags, " ")
			proven := strings.Replace(message, ":"+proof, "", 1)
			switch {
			case p.proves(proof, proven):
				if p.state == held && (p.token == 0 || p.token >= driver.MaxToken) {
					t.Errorf("%q grants token %d", message, p.token)
				}
			case p.state != was, was == held && p.token != 3, p.inherited, p.fixed:
				t.Errorf("%q, which proves nothing, makes %+v of a ticket in state %d", message, p, was)
			case strings.HasPrefix(message, "7 5 i"):
				if looks := p.again != 0 || p.doubted; looks != (was == waiting || was == unknown) {
					t.Errorf("%q to a ticket in state %d: it looks is %v", message, was, looks)
				}
			}
		}
	})
}
