package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/bench/workload"
)

// report prints lines of Markdown tables as they are measured, or JSON.
type report struct {
	w     io.Writer
	json  bool
	about string   // the measurement
	head  []string // of the table
}

func newReport(w io.Writer, json bool) *report { return &report{w: w, json: json} }

// comments is where text goes that is no result.
func (r *report) comments() io.Writer {
	if r.json {
		return os.Stderr
	}
	return r.w
}

// machine says what the figures are measured on.
func (r *report) machine() {
	var about strings.Builder
	machine(&about)
	if r.json {
		load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
		r.object(map[string]string{"machine": fmt.Sprintf("%d processors (%s), memory of %s, %s; load when it began: %s", runtime.NumCPU(),
			field("/proc/cpuinfo", "model name"), field("/proc/meminfo", "MemTotal"), runtime.Version(), load)})
	}
	fmt.Fprint(r.comments(), about.String())
}

func (r *report) title(name, what string) {
	r.about = name
	fmt.Fprintf(r.comments(), "\n## %s: %s\n\n", name, what)
}

func (r *report) header(cells ...string) {
	r.head = cells
	if r.json {
		return
	}
	r.line(cells...)
	rule := make([]string, len(cells))
	for i := range rule {
		rule[i] = "---"
	}
	r.line(rule...)
}

func (r *report) line(cells ...string) {
	if r.json {
		line := map[string]string{"measurement": r.about}
		for i, c := range cells {
			line[r.head[i]] = c
		}
		r.object(line)
		return
	}
	for _, c := range cells {
		fmt.Fprintf(r.w, "| %s ", c)
	}
	fmt.Fprintln(r.w, "|")
}

func (r *report) object(v any) { _ = json.NewEncoder(r.w).Encode(v) }

// raw prints one repetition.
func (r *report) raw(one workload.Result) {
	if r.json {
		r.object(one)
	}
}

// results prints the medians of a workload as a table.
func (r *report) results(w workload.Workload, contenders []workload.Contender, medians []workload.Result, beside string) {
	if r.json {
		return
	}
	peer, compared := workload.Result{}, false
	if beside != "" {
		peer, compared = workload.Beside(w, medians, beside)
	}
	w.Columns = slices.DeleteFunc(slices.Clone(w.Columns), func(c workload.Column) bool {
		return !slices.ContainsFunc(medians, func(m workload.Result) bool { _, known := m.Figures[c.Figure]; return known })
	})
	head := []string{"contender"}
	for i, c := range w.Columns {
		head = append(head, c.Figure)
		if i == 0 && compared {
			head = append(head, "× "+peer.Contender)
		}
	}
	head = append(head, w.Checks...)
	r.header(append(head, "settings")...)
	for i, m := range medians {
		cells := []string{m.Contender}
		for j, c := range w.Columns {
			cells = append(cells, figure(m, c))
			if j == 0 && compared {
				cells = append(cells, ratioOf(m, peer, c))
			}
		}
		for _, check := range w.Checks {
			cells = append(cells, verdict(m, check))
		}
		settings := contenders[i].Settings
		switch {
		case m.Failed != "":
			settings = "failed: " + m.Failed
		case m.Hung != "":
			settings = "hung: " + m.Hung
		}
		r.line(append(cells, settings)...)
	}
	for _, m := range medians {
		for _, wrong := range m.Wrong {
			fmt.Fprintf(r.w, "\n%s: %s\n", m.Contender, wrong)
		}
	}
}

func figure(m workload.Result, c workload.Column) string {
	v, ok := m.Figures[c.Figure]
	if !ok {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', c.Decimals, 64)
}

func ratioOf(m, peer workload.Result, c workload.Column) string {
	v, ok := m.Figures[c.Figure]
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.2f", workload.Ratio(v, peer.Figures[c.Figure], c.Less))
}

func verdict(m workload.Result, check string) string {
	switch {
	case m.Failed != "":
		return "–"
	case m.Hung != "" && (len(m.Wrong) == 0 || check != workload.Exclusion):
		return "**hung**"
	case check == workload.Served && m.Stuck != "":
		return "**" + m.Stuck + " left**"
	case check == workload.Served:
		return "yes"
	case check == workload.Order && !slices.Contains(m.Checked, check):
		return "–"
	case check == workload.Kept && len(m.Wrong) > 0:
		return "**lost some**"
	case len(m.Wrong) > 0:
		return "**broken**"
	}
	return "ok"
}

// goals prints what was to be reached.
func (r *report) goals(verdicts []workload.Verdict) {
	if len(verdicts) == 0 {
		return
	}
	fmt.Fprintln(r.comments())
	for _, v := range verdicts {
		fmt.Fprintln(r.comments(), "- "+goal(v))
	}
}

func goal(v workload.Verdict) string {
	bound := fmt.Sprintf("at least %g", v.AtLeast)
	if v.AtMost != 0 {
		bound = fmt.Sprintf("at most %g", v.AtMost)
	}
	what := fmt.Sprintf("%s, %s: %s", v.Who, v.Figure, bound)
	switch {
	case v.Peer != "":
		what += " × " + v.Peer
	case len(v.Of) > 0:
		what += " × " + v.Of[0]
	}
	if !v.Known {
		return what + ": not measured"
	}
	more, end := "", "reached"
	if !v.Reached {
		end = "**not reached**"
	}
	if v.AtBest {
		more = "more than "
		if !v.Reached {
			end = "not shown (-limit is too short)"
		}
	}
	return fmt.Sprintf("%s: %s%.2f, %s", what, more, v.Value, end)
}

// contender does n units of work and returns how long that took.
type contender struct {
	name string
	run  func(n int) (time.Duration, error)
	n    int
}

// compare runs the contenders in turn, several times, and returns the median
// time of one unit of each.
func compare(contenders []contender) ([]time.Duration, error) {
	times := make([][]time.Duration, len(contenders))
	for range *repeat {
		for i, c := range contenders {
			took, err := c.run(c.n)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			times[i] = append(times[i], took/time.Duration(c.n))
		}
	}
	medians := make([]time.Duration, len(contenders))
	for i, t := range times {
		medians[i] = median(t)
	}
	return medians, nil
}

func median(t []time.Duration) time.Duration {
	slices.Sort(t)
	return t[len(t)/2]
}

func perSecond(d time.Duration) string { return fmt.Sprintf("%.0f", float64(time.Second)/float64(d)) }

func ratio(a, b time.Duration) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) }
