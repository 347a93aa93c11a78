// Package figures makes the tables of the documents from what bench has measured, so that no
// figure is typed.
package figures

import (
	"bufio"
	"bytes"
	"cmp"
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

// Results are what bench has written with -json: medians of the repetitions, and what
// leases cost.
type Results struct {
	medians []workload.Result
	costs   []map[string]string
	speedOn []Machine
	costsOn []Machine
}

// Machine is what figures are measured on. Zeros were not measured.
type Machine struct {
	Machine      string  `json:"machine"`
	RoundTrip    float64 `json:"round_trip_us,omitzero"`    // of a byte over the loopback interface
	DurableWrite float64 `json:"durable_write_us,omitzero"` // of 4 KiB, in the folder for temporary files
}

func (m Machine) String() string {
	s := m.Machine
	if m.RoundTrip > 0 {
		s += "; a round trip takes " + span(m.RoundTrip)
	}
	if m.DurableWrite > 0 {
		s += "; a durable write takes " + span(m.DurableWrite)
	}
	return s
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
		on := &r.speedOn
		if bytes.Contains(text, []byte(`"measurement"`)) {
			on = &r.costsOn
		}
		for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
			var kind struct {
				Contender, Measurement string
				Machine
			}
			if err := json.Unmarshal(s.Bytes(), &kind); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			switch {
			case kind.Machine.Machine != "":
				if !slices.Contains(*on, kind.Machine) {
					*on = append(*on, kind.Machine)
				}
			case kind.Measurement != "":
				var line map[string]string
				if err := json.Unmarshal(s.Bytes(), &line); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				r.costs = append(r.costs, line)
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
		r.medians, all = append(r.medians, workload.Median(same)), others
	}
	return r, nil
}

// Write writes the medians, as Read reads them.
func (r *Results) Write(w io.Writer) error {
	out := json.NewEncoder(w)
	for _, m := range append(r.speedOn, r.costsOn...) {
		if err := out.Encode(m); err != nil {
			return err
		}
	}
	for _, l := range r.costs {
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

func (r *Results) about() string {
	var t strings.Builder
	for _, m := range r.speedOn {
		fmt.Fprintf(&t, "- Speed: %s\n", m)
	}
	for _, m := range r.costsOn {
		fmt.Fprintf(&t, "- Bytes: %s\n", m)
	}
	return t.String()
}

// ours is the contender of Interlock with no options.
const ours = "interlock"

var backends = []struct{ id, name string }{
	{"sqlite", "SQLite"}, {"file", "files"}, {"redis", "Redis"}, {"zookeeper", "ZooKeeper"}, {"etcd", "etcd"}, {"postgres", "PostgreSQL"}, {"mariadb", "MariaDB"},
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
	for _, b := range backends {
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s |\n", b.name,
			span(1e6/r.figure(b.id, "W1", ours, workload.Pairs)), count(r.figure(b.id, "W4", ours, workload.HandOffs)),
			span(r.figure(b.id, "W4", ours, workload.GapP50)), span(1e6*r.figure(b.id, "W5", ours, workload.DrainS)))
	}
	return t.String()
}

// gives is what a lock gives beside exclusion: grants in the order of arrival, news of its loss, a token that grows,
// and no connection or file that is kept for each that holds or waits.
var gives = map[string]string{
	ours:           "order, loss, token, no connection",
	"advisory":     "order",
	"GET_LOCK":     "order",
	"go-zookeeper": "order, no connection",
	"Curator":      "order, loss, no connection",
	"concurrency":  "order, loss, token, no connection",
	"rueidislock":  "loss, no connection",
	"redsync":      "no connection", "redislock, 100 ms": "no connection", "redislock, 1 ms": "no connection",
	"publish and retry": "no connection", "row, polled": "no connection",
}

// peers is a line for each contender, in the order in which they have run, of the backends that
// have others than Interlock.
func (r *Results) peers() string {
	var t strings.Builder
	t.WriteString("| on | | one client: acquire and release | 64 locks at once: a second | 16 clients, one lock: hand-offs a second | from a release to the next holder | gives |\n|---|---|---|---|---|---|---|\n")
	for _, b := range backends {
		var names []string
		for _, m := range r.medians {
			if m.Backend == b.id && m.Workload == "W4" && (m.Contender == ours || !m.Ours) && m.Finished() {
				names = append(names, m.Contender)
			}
		}
		if len(names) < 2 {
			continue
		}
		for _, name := range names {
			shown := name
			if name == ours {
				shown = "**Interlock**"
			}
			fmt.Fprintf(&t, "| %s | %s | %s | %s | %s | %s | %s |\n", b.name, shown,
				span(1e6/r.figure(b.id, "W1", name, workload.Pairs)), count(r.figure(b.id, "W2", name, workload.Pairs)),
				count(r.figure(b.id, "W4", name, workload.HandOffs)), span(r.figure(b.id, "W4", name, workload.GapP50)), cmp.Or(gives[name], "–"))
		}
	}
	return t.String()
}

// Costs are the figures of bench cost, in bytes.
var Costs = []string{"lease, server", "waiter, server", "idle name, server", "lease, process", "waiter, process"}

// cost is a line for each backend.
func (r *Results) cost() string {
	var t strings.Builder
	t.WriteString("| bytes for each | lease | waiter | name that nobody uses any more | lease, in the process | waiter, in the process |\n|---|---|---|---|---|---|\n")
	names := map[string]string{}
	for _, b := range backends {
		names[b.id] = b.name
	}
	for _, l := range r.costs {
		fmt.Fprintf(&t, "| %s |", names[l["backend"]])
		for _, c := range Costs {
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
