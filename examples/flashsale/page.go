package flashsale

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes the results as one page that needs nothing else: the stock over time
// for each sale, the table, and how to read them.
func WriteHTML(w io.Writer, results []Result) error {
	type row struct {
		Cells    []string
		Oversold bool
	}
	data := struct {
		Reading []string
		Charts  []chart
		Titles  []string
		Rows    []row
		Stock   int
		Buyers  int
		Workers int
	}{Reading: Reading(results)}
	lowest := 0
	for _, r := range results {
		lowest = max(lowest, len(r.times)-r.Stock)
		data.Stock, data.Buyers, data.Workers = r.Stock, r.Buyers, r.Workers
	}
	shown := columnsOf(results)
	for _, c := range shown {
		data.Titles = append(data.Titles, strings.ReplaceAll(c.title, "\n", " "))
	}
	for _, r := range results {
		data.Charts = append(data.Charts, newChart(r))
		line := row{Oversold: r.Oversold > 0}
		for _, c := range shown {
			line.Cells = append(line.Cells, c.cell(r))
		}
		data.Rows = append(data.Rows, line)
	}
	return page.Execute(w, data)
}

// chart is the stock over time: what was there less what was sold.
type chart struct {
	Label    string
	Idea     string
	Verdict  string
	Oversold bool
	Left     string // path of the stock down to nothing, and
	Over     string // of what was sold beyond, and
	OverArea string // between that and nothing
	LeftArea string
	Zero     float64 // where nothing is left
	Top      int     // pieces at the top,
	Bottom   int     // and at the bottom, as in "-20"
	Seconds  string  // at the right
}

// The plot of a chart in units of its view box.
const (
	plotWidth  = 300.0
	plotHeight = 120.0
)

func newChart(r Result) chart {
	sold := len(r.times)
	over := max(0, sold-r.Stock)
	c := chart{Label: r.Label, Idea: Idea(r.Strategy), Oversold: over > 0, Top: r.Stock, Bottom: -over}
	switch {
	case r.Oversold > 0:
		c.Verdict = fmt.Sprintf("%d oversold", r.Oversold)
	case r.Exact():
		c.Verdict = "exact"
	default:
		c.Verdict = fmt.Sprintf("%d of %d sold", r.Orders, r.Stock)
	}
	var end time.Duration
	if sold > 0 {
		end = r.times[sold-1]
	}
	c.Seconds = fmt.Sprintf("%.2f s", end.Seconds())
	x := func(at time.Duration) float64 { return plotWidth * at.Seconds() / max(end.Seconds(), 1e-9) }
	y := func(left int) float64 { return plotHeight * float64(r.Stock-left) / float64(r.Stock+over) }
	c.Zero = y(0)

	// More steps than the plot has units say nothing more.
	step := max(1, sold/int(plotWidth))
	left, above := &path{}, &path{}
	left.to(0, y(r.Stock))
	for i, at := range r.times {
		stock := r.Stock - i - 1
		if stock != 0 && stock != -over && i%step != 0 {
			continue
		}
		if stock >= 0 {
			left.step(x(at), y(stock))
		}
		if stock <= 0 && over > 0 {
			above.step(x(at), y(stock))
		}
	}
	c.Left, c.LeftArea = left.String(), left.area(c.Zero)
	c.Over, c.OverArea = above.String(), above.area(c.Zero)
	return c
}

// path is a line of steps in SVG.
type path struct {
	b           strings.Builder
	first, x, y float64
}

func (p *path) to(x, y float64) {
	letter := "L"
	if p.b.Len() == 0 {
		letter, p.first = "M", x
	}
	fmt.Fprintf(&p.b, "%s%.1f %.1f", letter, x, y)
	p.x, p.y = x, y
}

func (p *path) step(x, y float64) {
	if p.b.Len() > 0 {
		p.to(x, p.y)
	}
	p.to(x, y)
}

func (p *path) String() string { return p.b.String() }

// area is what is between the line and a base.
func (p *path) area(base float64) string {
	if p.b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("%sL%.1f %.1fL%.1f %.1fZ", p.b.String(), p.x, base, p.first, base)
}
