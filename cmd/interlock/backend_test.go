package main

import "testing"

// Promise: a file that names a backend may have comments, and empty lines.
func TestTheFirstLineThatIsNoComment(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\n\n": "", "# none\n": "", "mem:": "mem:", "mem:\n": "mem:", " mem: \r\n": "mem:",
		"# of all machines\n\nredis://host/#fragment\nmem:\n": "redis://host/#fragment",
	} {
		if got := firstLine(text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}
