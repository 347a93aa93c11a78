//go:build unix

package sqlitelock_test

import (
	"fmt"
	"testing"
)

// The lock goes round among 8 processes: the time per hand-over, and the
// exchanges, do not grow with the number of waiters.
func BenchmarkProcesses(b *testing.B) {
	for _, waiters := range []int{8, 80, 1000} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) {
			const processes = 8
			for b.Loop() {
				path := file(b)
				var all []*puppet
				for range processes {
					p := newPuppet(b, path)
					p.send("load", "q", waiters/processes)
					all = append(all, p)
				}
				var grants, exchanges, longest int64
				for _, p := range all {
					var g, e, l int64
					answer := p.answer()
					if n, err := fmt.Sscan(answer, &g, &e, &l); n != 3 {
						b.Fatal(answer, err)
					}
					grants, exchanges, longest = grants+g, exchanges+e, max(longest, l)
					p.kill()
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(1e6/float64(grants), "µs/hand-over")
				b.ReportMetric(float64(exchanges)/float64(grants), "exchanges/hand-over")
				b.ReportMetric(float64(longest), "longest-ms")
			}
		})
	}
}
