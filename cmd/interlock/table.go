package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

// display is where tables are written.
type display struct {
	w      io.Writer
	width  int  // of a terminal, which lines have to fit; 0: they are as long as they are
	colour bool // of a terminal, unless NO_COLOR is set
}

// display is that of an output: on a terminal, lines fit its width, unless -o wide is given.
func (o *options) display(out io.Writer) display {
	v := display{w: out}
	if isTerminal(out) {
		v.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if o.form != "wide" {
			v.width, _ = size(out)
		}
	}
	return v
}

// fit shows all columns in full if a terminal is wide enough, else lines that fit.
func (v display) fit(show func(display)) {
	if v.width > 0 {
		var b bytes.Buffer
		full := v
		full.w, full.width = &b, 0
		show(full)
		if text.LongestLineLen(b.String()) <= v.width {
			_, _ = v.w.Write(b.Bytes())
			return
		}
	}
	show(v)
}

// painted is a text that is shown as it is: one of this program, with a colour, or a whole one.
type painted string

func (v display) paint(c text.Color, s string) painted {
	if !v.colour || s == "" {
		return painted(s)
	}
	return painted(c.Sprint(s))
}

// printf writes a line above or below a table.
func (v display) printf(format string, args ...any) { fmt.Fprintf(people{v.w}, format, args...) }

// pick is one of two texts: for lines of any length, and for those that have to fit.
func (v display) pick(long, short string) string {
	if v.width == 0 {
		return long
	}
	return short
}

// A column is shown always, except one that is wide where lines have to fit. One with a least
// width is cut there, as far as necessary; those of a later rank only if that of the others is
// not enough. The last one can be written in several lines instead.
type column struct {
	name  string
	wraps bool
	wide  bool
	least int
	rank  int
}

type sheet struct {
	display
	columns []column
	rows    [][]string
}

func (v display) sheet(columns ...column) *sheet { return &sheet{display: v, columns: columns} }

// mostCell is how many characters of a cell are shown, also where lines may be long.
const mostCell = 200

// add adds a row of strings, which may come from anybody, and of what is painted.
func (s *sheet) add(cells ...any) {
	var row []string
	for _, cell := range cells {
		if p, ok := cell.(painted); ok {
			row = append(row, string(p))
			continue
		}
		row = append(row, view.Clip(view.Plain(fmt.Sprint(cell)), mostCell))
	}
	s.rows = append(s.rows, row)
}

// gap is between two columns, and behind the last.
const gap = 2

// render writes the table without lines, which people read and awk can cut.
func (s *sheet) render() {
	widths := s.widths()
	row := func(cells []string) string {
		var b strings.Builder
		for i, cell := range cells {
			if widths[i] > 0 {
				b.WriteString(text.Pad(text.Snip(cell, widths[i], "…"), widths[i]+gap, ' '))
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	var names []string
	for _, c := range s.columns {
		names = append(names, strings.ToUpper(c.name))
	}
	header := row(names)
	if s.colour {
		header = text.Bold.Sprint(header)
	}
	fmt.Fprintln(s.w, header)
	for _, r := range s.rows {
		for _, line := range s.wrapped(r, widths) {
			fmt.Fprintln(s.w, row(line))
		}
	}
}

// wrapped is a row whose last column is in as many lines as it needs.
func (s *sheet) wrapped(cells []string, widths []int) (lines [][]string) {
	last := len(cells) - 1
	if s.width == 0 || !s.columns[last].wraps {
		return [][]string{cells}
	}
	for part := range strings.SplitSeq(text.WrapSoft(cells[last], widths[last]), "\n") {
		lines = append(lines, append(cells[:last:last], strings.TrimRight(part, " ")))
		cells = make([]string, len(cells))
	}
	return lines
}

// leastWrapped is what a column that wraps has on the narrowest terminal.
const leastWrapped = 20

// widths are those of the columns, 0 for one that is left out.
func (s *sheet) widths() []int {
	widths := make([]int, len(s.columns))
	total := 0
	for i, c := range s.columns {
		if c.wide && s.width > 0 {
			continue
		}
		widths[i] = max(1, text.StringWidthWithoutEscSequences(c.name))
		for _, r := range s.rows {
			widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(r[i]))
		}
		total += widths[i] + gap
	}
	for rank := 0; s.width > 0 && rank < 2; rank++ {
		for total > s.width {
			widest := -1
			for i, c := range s.columns {
				if c.least > 0 && c.rank == rank && widths[i] > c.least && (widest < 0 || widths[i] > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			total--
		}
	}
	if last := len(widths) - 1; s.width > 0 && s.columns[last].wraps {
		room := s.width - (total - widths[last] - gap)
		widths[last] = min(widths[last], max(room, leastWrapped))
	}
	return widths
}

func (v display) since(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	age := view.Short(time.Since(t))
	return v.pick(t.Local().Format(time.DateTime)+" ("+age+")", age)
}

// until is when somebody's place ends: a renewed one is shown with what is left
// of its TTL. That of another library is not known.
func (v display) until(m interlock.Member) string {
	if m.Until.IsZero() {
		return "not known"
	}
	left := view.Short(time.Until(m.Until))
	if m.Fixed {
		return v.pick(m.Until.Local().Format(time.DateTime)+" (in "+left+")", "ends in "+left)
	}
	at := ""
	if m.At != "" {
		at = ", at " + view.Plain(m.At)
	}
	return v.pick("renewed, "+left+" left"+at, left+" left"+at)
}

// overrun is for how long work has gone on after its lock was lost.
func (v display) overrun(o interlock.Overrun) string {
	if o.Since.IsZero() {
		return "lost"
	}
	age := view.Short(time.Since(o.Since))
	return v.pick("lost "+o.Since.Local().Format(time.DateTime)+" ("+age+" ago)", "lost "+age+" ago")
}

// owner is how messages call somebody.
func owner(m interlock.Member) string {
	switch {
	case m.Owner != "":
		return view.Plain(m.Owner)
	case m.Foreign:
		return "another program"
	}
	return "an unknown member"
}
