package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lab/run"
)

// Table writes the tables of docs/track-record.md.
func Table(w io.Writer, all []*run.Report) {
	fmt.Fprintln(w, "| backend | operations | grants | faults | leases lost "+
		"| from that news to the next grant, at least | violations | as documented | not decided |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
	var operations, grants, losses, disturbances, wrong int
	names := map[string]int{}
	for _, r := range all {
		faults, documented, undecided, signal := r.Disturbances(), 0, 0, "–"
		maps.Copy(names, r.Faults)
		for _, v := range r.Verdicts {
			documented, undecided = documented+v.Documented, undecided+v.Undecided
		}
		if r.LossSignal.N > 0 {
			signal = fmt.Sprintf("%v, of %d", r.LossSignal.Least.Round(time.Millisecond), r.LossSignal.N)
		}
		fmt.Fprintf(w, "| %s: %s | %d | %d | %d | %d | %s | %d | %d | %d |\n",
			r.Backend, r.About, r.Operations, r.Grants, faults, r.Losses, signal, len(r.Violations), documented, undecided)
		operations, grants, losses = operations+r.Operations, grants+r.Grants, losses+r.Losses
		disturbances, wrong = disturbances+faults, wrong+len(r.Violations)
	}
	fmt.Fprintf(w, "| all | %d | %d | %d | %d | | %d | | |\n\n", operations, grants, disturbances, losses, wrong)

	fmt.Fprint(w, "| promise, by how often it was checked |")
	each(w, all, func(r *run.Report) string { return r.Backend })
	fmt.Fprintln(w, "|---|"+strings.Repeat("---|", len(all)))
	for i, v := range all[0].Verdicts {
		fmt.Fprintf(w, "| %s |", v.Promise)
		each(w, all, func(r *run.Report) string {
			if n := r.Verdicts[i].Violated; n > 0 {
				return fmt.Sprintf("**%d of %d**", n, r.Verdicts[i].Checked)
			}
			return fmt.Sprint(r.Verdicts[i].Checked)
		})
	}
	fmt.Fprint(w, "\n| fault, how often, and the median until all go on |")
	each(w, all, func(r *run.Report) string { return r.Backend })
	fmt.Fprintln(w, "|---|"+strings.Repeat("---|", len(all)))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(w, "| `%s` |", name)
		each(w, all, func(r *run.Report) string {
			switch s := r.Recovery[name]; {
			case r.Faults[name] == 0:
				return "–"
			case s == nil:
				return fmt.Sprint(r.Faults[name])
			default:
				return fmt.Sprintf("%d; %.1f s", r.Faults[name], s.Median.Seconds())
			}
		})
	}
}

func each(w io.Writer, all []*run.Report, cell func(*run.Report) string) {
	for _, r := range all {
		fmt.Fprintf(w, " %s |", cell(r))
	}
	fmt.Fprintln(w)
}
