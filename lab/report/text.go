// Package report shows what a run has found.
package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lab/run"
)

// Text writes a table.
func Text(w io.Writer, r *run.Report) {
	fmt.Fprintf(w, "%s (%s), seed %d, %v: %d operations, %d grants, %d leases lost, %d faults\n",
		r.Backend, r.About, r.Seed, r.For, r.Operations, r.Grants, r.Losses, r.Disturbances())
	for _, v := range r.Verdicts {
		fmt.Fprintf(w, "  %-30s %8d checked  %4d violations  %4d as documented  %4d not decided\n", v.Promise, v.Checked,
			v.Violated, v.Documented, v.Undecided)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(w, "  %-16s %5d", name, r.Faults[name])
		if s := r.Recovery[name]; s != nil {
			fmt.Fprintf(w, "  until all go on: median %v, at most %v", s.Median.Round(time.Millisecond),
				s.Most.Round(time.Millisecond))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  from the news of a loss to the next grant: %d, median %v, at least %v\n", r.LossSignal.N,
		r.LossSignal.Median.Round(time.Millisecond), r.LossSignal.Least.Round(time.Millisecond))
	fmt.Fprintf(w, "  unfenced counters: %d updates, %d of them lost; fenced: %d late writes refused\n", r.Updates,
		r.Overwrites, r.Refused)
	for _, v := range r.Violations[:min(len(r.Violations), 20)] {
		fmt.Fprintf(w, "  NOT KEPT: %s: %s: %s\n", v.Promise, v.Object, v.Text)
	}
	if len(r.Violations) > 0 {
		fmt.Fprintf(w, "  again: %s\n", r.Command)
	}
}
