package flock

import "testing"

// Promise: whatever stands in /proc/locks, the reader goes on.
func FuzzHoldings(f *testing.F) {
	f.Add("1: POSIX ADVISORY WRITE 4711 fe:00:1234 120 120\n1: -> FLOCK ADVISORY READ -1 00:00:0 0 EOF\n")
	f.Add("1: -> \n2:\n: : : : : : : :")
	f.Fuzz(func(_ *testing.T, text string) { holdings(text) })
}
