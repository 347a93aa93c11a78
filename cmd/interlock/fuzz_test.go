package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Promise: whatever is written for a duration, it is none that is negative, what is refused changes
// nothing, and what is shown means the same again.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{
		"", "90", "0.5", "1e3", "1m30s", "-0", "-1", "NaN", "Inf", "1e9", "1e9.", "9223372036854775807ns", "0x1p-2", "1_000", "2562047h47m16.854775807s", "-9223372036854775808ns", ".5", "1µs", "\xff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := time.Hour
		if err := (duration{&d}).Set(text); err != nil {
			if d != time.Hour {
				t.Errorf("%q is refused, and sets %v", text, d)
			}
			return
		}
		if d < 0 {
			t.Fatalf("%q is %v", text, d)
		}
		if shown := (duration{&d}).String(); d != 0 {
			var again time.Duration
			if err := (duration{&again}).Set(shown); err != nil || again != d {
				t.Errorf("%q is shown as %s, which is %v: %v", text, shown, again, err)
			}
		}
	})
}

// Promise: whatever INTERLOCK_HELD says, a lock is held if and only if its entry is a line of it.
func FuzzHeld(f *testing.F) {
	f.Add("redis://h nightly\nsqlite:x backup", "nightly")
	f.Add("\n\n", "")
	f.Add("redis://h", " ")
	f.Fuzz(func(t *testing.T, held, name string) {
		if strings.ContainsAny(name, "\x00\n") || strings.Contains(held, "\x00") {
			return // no variable has a NUL, and no name a line feed
		}
		b := backend{url: "redis://h"}
		entry := heldEntry(b, name)
		t.Setenv(heldVariable, held)
		if was := slices.Contains(strings.Split(held, "\n"), entry); heldAlready(entry) != was {
			t.Errorf("%q is held: %v, in %q", entry, !was, held)
		}
		t.Setenv(heldVariable, nested(heldVariable, []string{entry}))
		if !heldAlready(entry) || !b.holds(os.Getenv(heldVariable)) {
			t.Errorf("%q is not held under %q", entry, os.Getenv(heldVariable))
		}
		if name != "" && heldAlready(heldEntry(b, name+"x")) && !strings.Contains(held, name+"x") {
			t.Errorf("%q has another lock", os.Getenv(heldVariable))
		}
	})
}
