package flock

import "testing"

// Promise: a line of /proc/locks that comes twice, since locks came meanwhile, is one holder.
func TestAHolderIsToldOnce(t *testing.T) {
	const held, waits = "1: FLOCK  ADVISORY  WRITE 7 fe:00:12 0 EOF\n", "1: -> FLOCK  ADVISORY  WRITE 7 fe:00:12 0 EOF\n"
	const shared = "2: FLOCK  ADVISORY  READ 7 fe:00:13 0 EOF\n" // a process may have several
	if got := holdings(held + shared + shared + held + waits); len(got) != 4 {
		t.Errorf("%+v", got)
	}
}

// Promise: whatever stands in /proc/locks, the reader goes on.
func FuzzHoldings(f *testing.F) {
	f.Add("1: POSIX ADVISORY WRITE 4711 fe:00:1234 120 120\n1: -> FLOCK ADVISORY READ -1 00:00:0 0 EOF\n")
	f.Add("1: -> \n2:\n: : : : : : : :")
	f.Fuzz(func(_ *testing.T, text string) { holdings(text) })
}
