package figures

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/interlock-go/interlock/bench/workload"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// chart is bars that are compared with each other.
type chart struct {
	Title string
	Bars  []bar
}

type bar struct {
	Name, Shown, Gives string
	Ours               bool
	Percent            float64 // of the longest, once that is known; until then the length
	Units              string  // in round trips and durable writes of the machine
}

// axes are what the page shows of each backend.
var axes = []struct {
	load, figure, title string
	shown               func(r *Results, v float64) (length float64, text, units string)
}{
	{"W1", workload.Pairs, "One client: an acquire and a release. Shorter is better", func(r *Results, v float64) (float64, string, string) {
		return 1 / v, span(1e6 / v), r.units(1e6 / v)
	}},
	{"W2", workload.Pairs, "64 locks at once: pairs a second. Longer is better", rate},
	{"W10", workload.Pairs, "64 goroutines, each name used once: pairs a second. Longer is better", rate},
	{"W4", workload.HandOffs, "16 clients, one lock: hand-offs a second. Longer is better", rate},
	{"W6", workload.Pairs, "16 clients, a read-write lock, one in twenty writes: pairs a second", rate},
	{"W7", workload.Pairs, "64 clients, a semaphore with 8 permits: pairs a second", rate},
	{"W5", workload.DrainS, "Clients wait for one lock: until the last of them has had it. Shorter is better", func(_ *Results, v float64) (float64, string, string) {
		return v, span(1e6 * v), ""
	}},
}

func rate(_ *Results, v float64) (float64, string, string) { return v, count(v), "" }

// units is a time as multiples of what the machine needs for a round trip and a durable write.
func (r *Results) units(us float64) string {
	if len(r.speedOn) == 0 || r.speedOn[0].RoundTrip == 0 || r.speedOn[0].DurableWrite == 0 {
		return ""
	}
	m := r.speedOn[0]
	return fmt.Sprintf("%.1f round trips, or %.2g durable writes", us/m.RoundTrip, us/m.DurableWrite)
}

// Page is one HTML page with charts of all results, and nothing beside it.
func (r *Results) Page() (string, error) {
	type section struct {
		Name   string
		Charts []chart
	}
	data := struct {
		Speed    []Machine
		Sections []section
	}{Speed: r.speedOn}
	for _, b := range backends {
		s := section{Name: b.name}
		for _, a := range axes {
			c := chart{Title: a.title}
			longest := 0.0
			for _, m := range r.medians {
				v := r.figure(b.id, a.load, m.Contender, a.figure)
				if m.Backend != b.id || m.Workload != a.load || math.IsNaN(v) || v == 0 {
					continue
				}
				length, text, units := a.shown(r, v)
				longest = max(longest, length)
				given := cmp.Or(gives[m.Contender], "exclusion alone")
				if m.Ours {
					given = gives[ours]
				}
				c.Bars = append(c.Bars, bar{m.Contender, text, given, m.Ours, length, units})
			}
			for i := range c.Bars {
				c.Bars[i].Percent *= 100 / longest
			}
			if len(c.Bars) > 0 {
				s.Charts = append(s.Charts, c)
			}
		}
		if len(s.Charts) > 0 {
			data.Sections = append(data.Sections, s)
		}
	}
	var out strings.Builder
	err := pageTemplate.Execute(&out, data)
	return out.String(), err
}
