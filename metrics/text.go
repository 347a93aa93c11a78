package metrics

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/internal/collector"
)

// page is text in the format of Prometheus.
type page struct{ bytes.Buffer }

// family writes a family that has samples. A block is a sample, or all of a histogram.
func (p *page) family(name, kind, help string, blocks []string) {
	if len(blocks) > 0 {
		slices.Sort(blocks)
		fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n%s", name, help, name, kind, strings.Join(blocks, ""))
	}
}

func (h *histogram) lines(name, labels string) string {
	var b strings.Builder
	var all uint64
	for i, n := range h.buckets {
		all += n
		le := "+Inf"
		if i < len(collector.Buckets) {
			le = strconv.FormatFloat(collector.Buckets[i], 'g', -1, 64)
		}
		b.WriteString(line(name+"_bucket", join(labels, label("le", le)), float64(all)))
	}
	return b.String() + line(name+"_sum", labels, h.sum) + line(name+"_count", labels, float64(all))
}

func line(name, labels string, value float64) string {
	if labels != "" {
		name += "{" + labels + "}"
	}
	return name + " " + strconv.FormatFloat(value, 'g', -1, 64) + "\n"
}

// labels leaves out empty ones, which are the same to Prometheus.
func labels(l collector.Labels, outcome string) string {
	return join(label("backend", l.Backend), label("kind", l.Kind), label("name", l.Name), label("outcome", outcome))
}

func join(labels ...string) string {
	return strings.Join(slices.DeleteFunc(labels, func(l string) bool { return l == "" }), ",")
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// label escapes the value, which another program may have chosen.
func label(name, value string) string {
	if value == "" {
		return ""
	}
	return name + `="` + escaped.Replace(strings.ToValidUTF8(value, "\uFFFD")) + `"`
}
