// Package figures makes the tables of the documents from what bench has measured, so that no
// figure is typed.
package figures

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/bench/workload"
)

// Results are what bench has written with -json: medians of the repetitions, and lines of
// other tables.
type Results struct {
	medians []workload.Result
	lines   []map[string]string
	machine []string
}

// Read reads what was written with -json, from several files if there are several.
func Read(files ...string) (*Results, error) {
	r := &Results{}
	var all []workload.Result
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
			var kind struct{ Contender, Measurement, Machine string }
			if err := json.Unmarshal(s.Bytes(), &kind); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			switch {
			case kind.Machine != "":
				if !slices.Contains(r.machine, kind.Machine) {
					r.machine = append(r.machine, kind.Machine)
				}
			case kind.Measurement != "":
				var line map[string]string
				if err := json.Unmarshal(s.Bytes(), &line); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				r.lines = append(r.lines, line)
			default:
				var one workload.Result
				if err := json.Unmarshal(s.Bytes(), &one); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				all = append(all, one)
			}
		}
	}
	for len(all) > 0 {
		var same, others []workload.Result
		for _, one := range all {
			if one.Backend == all[0].Backend && one.Workload == all[0].Workload && one.Contender == all[0].Contender {
				same = append(same, one)
			} else {
				others = append(others, one)
			}
		}
		m := workload.Median(same)
		m.Repetition = 0
		r.medians, all = append(r.medians, m), others
	}
	return r, nil
}

// Write writes the medians, as Read reads them.
func (r *Results) Write(w io.Writer) error {
	out := json.NewEncoder(w)
	for _, m := range r.machine {
		if err := out.Encode(map[string]string{"machine": m}); err != nil {
			return err
		}
	}
	for _, l := range r.lines {
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	for _, m := range r.medians {
		if err := out.Encode(m); err != nil {
			return err
		}
	}
	return nil
}

// Tables are those that a document can have, by the name in its mark.
func (r *Results) Tables() map[string]string {
	return map[string]string{"speed": r.speed(), "peers": r.peers(), "cost": r.cost(), "machine": r.about()}
}

func (r *Results) about() string { return strings.Join(r.machine, "\n") + "\n" }

// ours is the contender of Interlock with no options.
const ours = "interlock"

var backends = []struct{ id, name string }{
	{"file", "files"}, {"redis", "Redis"}, {"zookeeper", "ZooKeeper"}, {"etcd", "etcd"}, {"postgres", "PostgreSQL"}, {"mariadb", "MariaDB"},
}

func (r *Results) figure(backend, load, contender, figure string) float64 {
	for _, m := range r.medians {
		if m.Backend == backend && m.Workload == load && m.Contender == contender && m.Finished() {
			if v, known := m.Figures[figure]; known {
				return v
			}
		}
	}
	return math.NaN()
}

// speed is a line for each backend.
func (r *Results) speed() string {
	var t strings.Builder
	t.WriteString("| | one client, nobody else | 16 clients, one lock: hand-offs a second | from a release to the next holder | 1,000 clients wait: until the last has had it |\n|---|---|---|---|---|\n")
	for _, l := range r.lines {
		if l["measurement"] == "sqlite/uncontended" && strings.HasPrefix(l["sqlite"], "default:") {
			if perSecond, err := strconv.ParseFloat(l["per second"], 64); err == nil {
				fmt.Fprintf(&t, "| SQLite | %s | – | – | – |\n", span(1e6/perSecond))
			}
		}
	}
	for _, b := range backends {
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s |\n", b.name,
			span(1e6/r.figure(b.id, "W1", ours, "pairs/s")), count(r.figure(b.id, "W4", ours, "hand-offs/s")),
			span(r.figure(b.id, "W4", ours, "gap p50 µs")), span(1e6*r.figure(b.id, "W5", ours, "drain s")))
	}
	return t.String()
}

// peers is a line for each contender, in the order in which they have run.
func (r *Results) peers() string {
	var t strings.Builder
	t.WriteString("| on | | acquire and release: a second, one client | hand-offs a second, 16 clients |\n|---|---|---|---|\n")
	for _, b := range backends {
		var names []string
		for _, m := range r.medians {
			if m.Backend == b.id && m.Workload == "W4" && (m.Contender == ours || !m.Ours) && m.Finished() {
				names = append(names, m.Contender)
			}
		}
		for _, name := range names {
			shown := name
			if name == ours {
				shown = "**Interlock**"
			}
			fmt.Fprintf(&t, "| %s | %s | %s | %s |\n", b.name, shown,
				count(r.figure(b.id, "W1", name, "pairs/s")), count(r.figure(b.id, "W4", name, "hand-offs/s")))
		}
	}
	return t.String()
}

// cost is a line for each backend.
func (r *Results) cost() string {
	var t strings.Builder
	columns := []string{"lease, server", "waiter, server", "idle name, server", "lease, process", "waiter, process"}
	t.WriteString("| bytes for each | lease | waiter | name that nobody uses any more | lease, in the process | waiter, in the process |\n|---|---|---|---|---|---|\n")
	names := map[string]string{"sqlite": "SQLite"}
	for _, b := range backends {
		names[b.id] = b.name
	}
	for _, l := range r.lines {
		if l["measurement"] != "cost" {
			continue
		}
		fmt.Fprintf(&t, "| %s |", names[l["backend"]])
		for _, c := range columns {
			v, err := strconv.ParseFloat(l[c], 64)
			if err != nil {
				v = math.NaN()
			}
			fmt.Fprintf(&t, " %s |", count(max(v, 0)))
		}
		t.WriteString("\n")
	}
	return t.String()
}

// count shows a number with two digits that mean something, or three.
func count(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	if v >= 100 {
		step := math.Pow(10, math.Floor(math.Log10(v))-1)
		v = math.Round(v/step) * step
	}
	digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// span shows a time, given in microseconds.
func span(us float64) string {
	switch {
	case math.IsNaN(us) || math.IsInf(us, 0):
		return "–"
	case us < 995:
		return count(us) + " µs"
	case us < 9950:
		return fmt.Sprintf("%.1f ms", us/1e3)
	case us < 995e3:
		return strconv.FormatFloat(math.Round(us/1e3), 'f', 0, 64) + " ms"
	}
	return fmt.Sprintf("%.1f s", us/1e6)
}

// Into returns a document with its tables replaced. One that is to be written here stands
// between two marks, which no reader sees: <!-- bench: NAME --> and <!-- /bench -->.
func Into(document string, tables map[string]string) (string, error) {
	const begin, middle, end = "<!-- bench: ", " -->\n", "<!-- /bench -->"
	var out strings.Builder
	for {
		before, after, found := strings.Cut(document, begin)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, rest, ok := strings.Cut(after, middle)
		_, behind, closed := strings.Cut(rest, end)
		table, known := tables[name]
		if !ok || !closed || !known {
			return "", fmt.Errorf("the mark %q has no end, or there is no such table", name)
		}
		out.WriteString(begin + name + middle + table + end)
		document = behind
	}
}
