package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/rivo/uniseg"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

// look is how a text is drawn. Each stands beside a word or a sign that says the same without colours.
type look int

const (
	lookPlain look = iota
	lookBold
	lookDim
	lookPicked // the row under the cursor
	lookHolds
	lookWaits
	lookBad
)

// span is a text at a place of a line. It has no more than so many cells.
type span struct {
	x, cells int
	text     string
	look     look
}

// topColumn is a column of a table. One with a weight shares the cells that the others leave; one with a least width is
// left out on a screen that is narrower than that.
type topColumn struct {
	title         string
	cells, weight int
	least         int
}

var (
	topLocks = []topColumn{{}, {"NAME", 0, 5, 0}, {"HELD AS", 9, 0, 90}, {"HOLDER", 0, 4, 0}, {"NOTE", 0, 4, 100},
		{"TOKEN", 20, 0, 150}, {"IN LINE", 7, 0, 0}, {"UNTIL", 11, 0, 70}, {"WAIT", 5, 0, 0}, {"OLDEST", 7, 0, 60}}
	topMembers = []topColumn{{}, {"", 10, 0, 0}, {"HOLDER", 0, 4, 0}, {"AS", 9, 0, 60}, {"NOTE", 0, 3, 70},
		{"TOKEN", 20, 0, 130}, {"IN LINE", 7, 0, 0}, {"UNTIL", 11, 0, 52}, {"ID", 8, 0, 90}}
	topGrants = []topColumn{{}, {"FROM", 9, 0, 0}, {"FOR", 7, 0, 0}, {"HOLDER", 0, 4, 0}, {"NOTE", 0, 3, 70},
		{"TOKEN", 20, 0, 90}, {"ENDED", 9, 0, 0}}
)

// spans places the cells of a row. The first has the cursor.
func spans(width int, columns []topColumn, l look, cells ...span) (line []span) {
	left, weights := width-2, 0
	for _, c := range columns[1:] {
		if c.least <= width {
			left -= c.cells + 1
			weights += c.weight
		}
	}
	line = append(line, span{0, 2, cells[0].text, l})
	x := 2
	for i, c := range columns {
		if i == 0 || c.least > width {
			continue
		}
		n := c.cells
		if c.weight > 0 {
			n = max(4, left*c.weight/weights)
		}
		s := span{x, min(n, width-x), cells[i].text, cells[i].look}
		if l == lookPicked || s.look == lookPlain {
			s.look = l
		}
		line = append(line, s)
		x += n + 1
	}
	return line
}

// header is the line above a table.
func header(width int, columns []topColumn) []span {
	var cells []span
	for _, c := range columns {
		cells = append(cells, span{text: c.title})
	}
	return spans(width, columns, lookBold, cells...)
}

// rows is how many the table has room for: the height without two lines of figures, the header, a message and the keys;
// of an open lock also without its name and its last grants.
func (m *topModel) rows() int {
	if m.open == "" {
		return max(1, m.height-5)
	}
	return max(1, m.height-6-m.below())
}

// below is how many lines the last grants have under an open lock.
func (m *topModel) below() int {
	if m.open == "" || m.grants || m.low() {
		return 0
	}
	return min(8, m.height/3)
}

// frame is the screen. Only what is seen is made.
func (m *topModel) frame() [][]span {
	lines := m.head()
	switch {
	case m.mode == topHelp:
		lines = append(lines, m.text(topKeys)...)
	case m.mode >= topRevoke:
		lines = append(lines, m.text(m.question())...)
	case m.grants:
		lines = append(lines, m.lastGrants(m.grant, m.rows())...)
	case m.open != "":
		title := fmt.Sprintf("%s is held by %d, %d waiting", m.open, len(m.queue.Holders), len(m.queue.Waiters))
		lines = append(lines, m.whole(title, lookBold))
		lines = append(lines, m.table(topMembers, m.line, m.rows(), len(m.members), m.member)...)
		if n := m.below(); n > 0 {
			lines = append(fill(lines, m.height-2-n), m.lastGrants(cursor{at: -1}, n-2)...)
		}
	default:
		lines = append(lines, m.table(topLocks, m.list, m.rows(), len(m.locks), m.lock)...)
	}
	lines = fill(lines, m.height-2)
	return append(lines, m.foot()...)[:max(0, m.height)]
}

// fill makes it n lines.
func fill(lines [][]span, n int) [][]span {
	for len(lines) < n {
		lines = append(lines, nil)
	}
	return lines[:max(0, n)]
}

func (m *topModel) whole(line string, l look) []span { return []span{{0, m.width, line, l}} }

// head is the two lines of figures.
func (m *topModel) head() [][]span {
	title := m.backend
	if m.prefix != "" {
		title += " " + m.prefix
	}
	clock := m.now.Format(time.TimeOnly)
	left := m.width - len(clock)
	first := []span{{0, left - 1, "interlock top  " + title, lookBold},
		{max(0, left), min(len(clock), m.width), clock, lookPlain}}
	if m.sample.At.IsZero() {
		return [][]span{first, m.whole("reading the locks …", lookPlain)}
	}
	s, state := m.sample, ""
	switch age := m.late(); {
	case age > 0:
		state = "OLD: " + seconds(age) + " ago. "
	case m.paused:
		state = "PAUSED. "
	}
	count := fmt.Sprint(len(s.Locks))
	if len(m.locks) != len(s.Locks) {
		count = fmt.Sprintf("%d of %d", len(m.locks), len(s.Locks))
	}
	if s.More {
		count += " and more"
	}
	figures := fmt.Sprintf("%slocks: %s, waiters: %d; listed in %v, %.0f exchanges/s; by %s", state, count, m.waiters,
		s.Took.Round(time.Millisecond/10), m.rate, m.choice.Order)
	if m.choice.Waiting {
		figures += ", waited for"
	}
	if m.choice.Text != "" {
		figures += ", with " + m.choice.Text
	}
	l := lookPlain
	if state != "" {
		l = lookBad
	}
	return [][]span{first, m.whole(figures, l)}
}

// foot is what was said, or is wrong, and the keys.
func (m *topModel) foot() [][]span {
	said, l := m.said, lookBold
	switch {
	case said != "":
	case m.trouble != "":
		said, l = "! "+m.trouble, lookBad
	case m.late() > 0:
		said, l = "! the backend has not answered yet", lookBad
	case len(m.sample.Locks) > 0:
		said = strings.TrimPrefix(pause(m.sample.Locks[0]), "; ")
	}
	return [][]span{m.whole(said, l), m.whole(m.keys(), lookDim)}
}

// keys names the keys that mean something now.
func (m *topModel) keys() string {
	fitting := func(long, short string) string {
		if uniseg.StringWidth(long) > m.width {
			return short
		}
		return long
	}
	switch m.mode {
	case topHelp:
		return "any key: back"
	case topFilter:
		return "/" + m.choice.Text + "_"
	case topRevoke:
		return "y ask it  any other key: no"
	case topForce:
		return "> " + m.typed + "_"
	case topEvict:
		if m.picked.waits {
			return "Y evict it  any other key: no"
		}
		return "Y evict it  f by force  other keys: no"
	}
	if m.open != "" {
		return fitting("esc back  ↑↓ choose  r revoke  e evict  tab last grants  p pause  ? help  q quit",
			"esc back  tab grants  ? help  q quit")
	}
	return fitting("enter open  / filter  s sort  r revoke  e evict  p pause  ? help  q quit",
		"enter open  / filter  ? help  q quit")
}

// table is a header and the rows that are seen, of n.
func (m *topModel) table(columns []topColumn, c cursor, seen, n int, row func(int) []span) [][]span {
	lines := [][]span{header(m.width, columns)}
	for i := c.first; i < min(n, c.first+seen); i++ {
		cells, l := row(i), lookPlain
		switch {
		case i == c.at:
			l, cells[0].text = lookPicked, ">"
		case m.late() > 0:
			l = lookDim
		}
		lines = append(lines, spans(m.width, columns, l, cells...))
	}
	return lines
}

// seconds is a duration in whole seconds: more changes faster than it is read.
func seconds(d time.Duration) string { return view.Short(d.Truncate(time.Second)) }

func (m *topModel) age(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return seconds(m.now.Sub(t))
}

// left is when a member's place ends.
func (m *topModel) left(i interlock.Member) string {
	switch left := seconds(i.Until.Sub(m.now)); {
	case i.Until.IsZero():
		return "not known"
	case i.Fixed:
		return "ends " + left
	default:
		return left + " left"
	}
}

func (m *topModel) lock(i int) []span {
	q := m.locks[i]
	cells := make([]span, len(topLocks))
	cells[1].text, cells[2].text, cells[3].text = q.Name, q.Kind, "-"
	if len(q.Holders) > 0 {
		h := q.Holders[0]
		cells[2].text, cells[3] = view.Held(q, h), span{text: owner(h), look: lookHolds}
		if more := len(q.Holders) - 1; more > 0 {
			cells[3].text = fmt.Sprintf("%d more, %s", more, owner(h))
		}
		cells[4].text, cells[5].text, cells[6].text, cells[7].text = h.Note, view.Token(h), m.age(h.Since), m.left(h)
	}
	if len(q.Overruns) > 0 {
		cells[3] = span{text: fmt.Sprintf("%d overrun, %s", len(q.Overruns), cells[3].text), look: lookBad}
	}
	if n := len(q.Waiters); n > 0 {
		cells[8] = span{text: fmt.Sprint(n), look: lookWaits}
		cells[9].text = m.age(view.Oldest(q.Waiters))
	}
	return cells
}

func (m *topModel) member(i int) []span {
	t := m.members[i]
	l, until := lookWaits, m.left(t.Member)
	switch {
	case t.overrun != nil:
		l, until = lookBad, "lost"
	case t.what == "holds":
		l = lookHolds
	}
	return []span{{}, {text: t.what, look: l}, {text: owner(t.Member)}, {text: view.Held(m.queue, t.Member)},
		{text: t.Note}, {text: view.Token(t.Member)}, {text: m.age(t.Since)}, {text: until}, {text: t.ID}}
}

// lastGrants is the table of the last grants of the open lock.
func (m *topModel) lastGrants(c cursor, seen int) [][]span {
	title := fmt.Sprintf("last grants of %s, seen since %s", m.open, m.history.Since().Local().Format(time.TimeOnly))
	return append([][]span{m.whole(title, lookBold)}, m.table(topGrants, c, seen, len(m.past), m.grantAt)...)
}

func (m *topModel) grantAt(i int) []span {
	g := m.past[i]
	from, to, end := g.From.Local().Format(time.TimeOnly), g.To, span{text: g.End, look: lookBad}
	if !g.Begun {
		from = "before"
	}
	switch {
	case to.IsZero():
		to, end = m.now, span{text: "it holds"}
	case g.End == view.Released:
		end.look = lookPlain
	}
	return []span{{}, {text: from}, {text: seconds(to.Sub(g.From))}, {text: owner(interlock.Member{Owner: g.Owner})}, {text: g.Note},
		{text: view.Token(interlock.Member{Token: g.Token})}, end}
}

const topKeys = `up down pgup pgdn home end: move
enter: open a lock; tab: its last grants
esc: back; in the list: all locks again
s: another order; w: only with waiters
/: only with a text in name, owner, note
r revoke, e evict: both ask first
p: pause; q: quit`

// question says what is going to be done, and to which member.
func (m *topModel) question() string {
	of, name := m.picked.member, view.Clip(view.Plain(m.picked.name), mostCell)
	who := view.Clip(owner(of), 60) + " (" + view.Clip(view.Plain(of.ID), 9) + ")"
	if m.low() {
		who, name = view.Clip(owner(of), m.width-16), view.Clip(name, 2*m.width-2)
	}
	what, why := fmt.Sprintf("Evict %s from %s?", who, name), ""
	switch {
	case m.mode == topRevoke:
		what, why = fmt.Sprintf("Ask %s to give %s up?", who, name), "Nothing happens if it does not listen."
	case m.mode == topForce:
		what = fmt.Sprintf("BY FORCE: take %s from %s?", name, who)
		why = "The lock passes on at once, while its holder may still be at work: two may hold it then.\n\n" +
			"Type the word force and press Enter to do it. Esc: no."
	case m.picked.waits:
		what = fmt.Sprintf("Evict %s from the queue of %s?", who, name)
		why = "It loses its place. If it still wants the lock, it lines up again at the end."
	case of.Foreign:
		why = "It is of another library: it is only asked, and holds on if it does not listen."
	default:
		why = "It is told that it has lost the lock, which passes on when its work has ended, or its time is over (" +
			m.picked.left + ")."
	}
	return what + "\n\n" + why
}

// low reports whether the screen has room only for what has to be there.
func (m *topModel) low() bool { return m.height < 16 }

// text is a text in lines that fit. A low screen has no empty ones.
func (m *topModel) text(all string) (lines [][]span) {
	for paragraph := range strings.Lines(all) {
		if paragraph = strings.TrimSpace(paragraph); paragraph == "" && m.low() {
			continue
		}
		for line := range strings.SplitSeq(text.WrapSoft(paragraph, max(1, m.width)), "\n") {
			lines = append(lines, m.whole(strings.TrimRight(line, " "), lookPlain))
		}
	}
	return lines
}

// fit is a text that steers nothing, in so many cells. Terminals count the cells of joined characters differently: they
// are not joined.
func fit(s string, cells int) string {
	s = strings.Map(func(r rune) rune {
		if r == '\u200c' || r == '\u200d' || r >= 0xfe00 && r <= 0xfe0f {
			return -1
		}
		return r
	}, view.Clip(view.Plain(s), mostCell))
	if cells < 1 {
		return ""
	}
	n, cut, state, rest := 0, 0, -1, s
	for rest != "" {
		_, next, width, after := uniseg.FirstGraphemeClusterInString(rest, state)
		if n+width > cells {
			return s[:cut] + "…"
		}
		if n += width; n < cells {
			cut = len(s) - len(next)
		}
		rest, state = next, after
	}
	return s
}
