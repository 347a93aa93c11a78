package redislock

import (
	"strings"
	"testing"
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
