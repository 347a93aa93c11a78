package redislock

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
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

// Promise: whatever is published to a client, it is heard without harm, and proves nothing unless its sender
// shows that it knows the ticket. What proves nothing is a reason to ask, but that another waits is believed.
func FuzzHear(f *testing.F) {
	const proven = "7 5 i:79b7bbaf1c3e8d4bd6f1"
	for _, message := range []string{
		"", " ", "7", "7 5", "7 5 i", "7 5 iw:", "7 5 iw:00000000000000000000 1700000000000000", "-7 5 i:", "7 9223372036854775808 i:",
		"w 7 7 7", "w", "r 7", "e 7", "x 7", "l 7", "f 7", "f", "p 7", "p 18446744073709551616", "l 7\x00", "z 7", proven,
	} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		granted := false
		new(store).hear(message, func(ev exchange.Event) {
			switch ev.Type {
			case exchange.Granted:
				granted = true
				_, flags, _ := strings.Cut(message, ":")
				proof, _, _ := strings.Cut(flags, " ")
				sum := sha1.Sum([]byte(strings.Replace(message, ":"+proof, "", 1) + " ticket"))
				if proves := proof == hex.EncodeToString(sum[:])[:20]; ev.Proves("ticket") != proves || ev.Unverified {
					t.Errorf("%q is heard as %+v, and proves its sender: %v", message, ev, !proves)
				}
			case exchange.Demanded:
				if ev.Unverified == (ev.Demand == driver.Wanted) {
					t.Errorf("%q is heard as %+v", message, ev)
				}
			default:
				if !ev.Unverified {
					t.Errorf("%q is heard as %+v", message, ev)
				}
			}
		})
		if message == proven && !granted {
			t.Errorf("%q is not heard", message)
		}
	})
}
