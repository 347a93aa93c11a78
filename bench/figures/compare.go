package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/bench/workload"
)

// Compare is a table of two runs: of each contender in each workload the first figure, and what the second run made of
// it. The last column divides that by what it made of the peers on the same backend, since they have not changed: the
// rest is this machine's doing.
func Compare(before, after *Results) string {
	var t strings.Builder
	t.WriteString("| workload | contender | figure | before | after | ratio | ratio to that of the peers |\n|---|---|---|---|---|---|---|\n")
	for _, b := range backends {
		for _, w := range workload.All() {
			f := w.Figures[0]
			ratio := func(contender string) float64 {
				return after.figure(b.id, w.Name, contender, f) / before.figure(b.id, w.Name, contender, f)
			}
			var peers []float64
			for _, m := range after.medians {
				if r := ratio(m.Contender); m.Backend == b.id && m.Workload == w.Name && !m.Ours && !math.IsNaN(r) {
					peers = append(peers, r)
				}
			}
			slices.Sort(peers)
			for _, m := range after.medians {
				r := ratio(m.Contender)
				if m.Backend != b.id || m.Workload != w.Name || math.IsNaN(r) {
					continue
				}
				relative := "–"
				if m.Ours && len(peers) > 0 {
					relative = fmt.Sprintf("%.2f", r/peers[len(peers)/2])
				}
				fmt.Fprintf(&t, "| %s/%s | %s | %s | %s | %s | %.2f | %s |\n", b.id, w.Name, m.Contender, f,
					count(before.figure(b.id, w.Name, m.Contender, f)), count(after.figure(b.id, w.Name, m.Contender, f)), r, relative)
			}
		}
	}
	return t.String()
}
