package metrics

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/internal/tally"
)

// page is text in the format of Prometheus, family by family.
type page struct {
	text   []byte
	of     family
	blocks []string // of the family: a sample, or all of a histogram
}

type family struct{ name, kind, help string }

func (p *page) begin(f family) { p.of, p.blocks = f, nil }

// sample adds a line.
func (p *page) sample(labels string, value float64) {
	p.blocks = append(p.blocks, line(p.of.name, labels, value))
}

func (p *page) histogram(labels string, h *histogram) {
	var b strings.Builder
	var all uint64
	for i, n := range h.buckets {
		all += n
		le := "+Inf"
		if i < len(tally.Buckets) {
			le = strconv.FormatFloat(tally.Buckets[i], 'g', -1, 64)
		}
		b.WriteString(line(p.of.name+"_bucket", join(labels, label("le", le)), float64(all)))
	}
	b.WriteString(line(p.of.name+"_sum", labels, h.sum))
	b.WriteString(line(p.of.name+"_count", labels, float64(all)))
	p.blocks = append(p.blocks, b.String())
}

// end writes the family, if it has samples.
func (p *page) end() {
	if len(p.blocks) == 0 {
		return
	}
	slices.Sort(p.blocks)
	b := bytes.NewBuffer(p.text)
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", p.of.name, p.of.help, p.of.name, p.of.kind)
	for _, block := range p.blocks {
		b.WriteString(block)
	}
	p.text = b.Bytes()
}

func line(name, labels string, value float64) string {
	if labels != "" {
		name += "{" + labels + "}"
	}
	return name + " " + strconv.FormatFloat(value, 'g', -1, 64) + "\n"
}

// labels leaves out empty ones, which are the same to Prometheus.
func labels(l tally.Labels, outcome string) string {
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
