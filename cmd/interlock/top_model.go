package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/view"
)

// topModel is what interlock top knows, and what of it is on the screen. Events change it, by update alone. It reads no
// clock and no backend, so that tests need neither.
type topModel struct {
	backend       string // as people may see it
	prefix        string
	history       *view.History
	choice        view.Choice
	width, height int
	now           time.Time

	sample  view.Sample       // the last that could be read
	counted uint64            // exchanges of the client until then
	rate    float64           // exchanges per second, before it
	waiters int               // in it
	locks   []interlock.Queue // of it, chosen and sorted
	trouble string            // why it is old, or not whole
	paused  bool

	list    cursor // over locks
	open    string // the lock that is shown alone, "" for the list
	queue   interlock.Queue
	members []topMember  // of queue
	line    cursor       // over members
	past    []view.Grant // its last grants
	grants  bool         // they have the whole screen
	grant   cursor       // over them

	mode    topMode
	typed   string // of the word force
	pasting bool
	picked  topAsk // the subject of a question
	said    string // came of the last key
}

// topMode is what keys mean.
type topMode int

const (
	topBrowse topMode = iota
	topHelp
	topFilter // the text to look for is typed
	topRevoke // y or another key
	topEvict  // Y, f or another key
	topForce  // the word force is typed
)

// topMember is a line of an open lock.
type topMember struct {
	interlock.Member
	what    string // holds, waits 1, overruns
	overrun *interlock.Overrun
}

// The events of a topModel. A key has the name that topKey gives it.
type (
	topKey     string
	topSize    struct{ width, height int }
	topPaste   bool // begins or ends
	topTrouble string
	topSaid    string
	topSample  struct {
		view.Sample
		exchanges uint64 // of the client so far
	}
	topQueue struct {
		name string
		interlock.Queue
		err error
	}
)

// The deeds that a topModel wants done after an event.
type (
	topQuit struct{ interrupted bool }
	topAsk  struct {
		do     string // revoke, evict or force
		name   string
		member interlock.Member
		left   string // of its time, when the question was asked
		waits  bool
	}
)

// update takes an event in, and returns what has to be done, or nil.
func (m *topModel) update(now time.Time, event any) (do any) {
	if !m.paused { // ages and what is left stay with the screen
		m.now = now
	}
	switch e := event.(type) {
	case topSize:
		m.width, m.height = e.width, e.height
	case topPaste:
		m.pasting = bool(e)
	case topTrouble:
		m.trouble = string(e)
	case topSaid:
		m.said = string(e)
	case topSample:
		if !m.paused {
			m.take(e)
		}
	case topQueue:
		if e.name != m.open || m.paused {
			break
		}
		if e.err != nil {
			m.said = reason(e.err)
			break
		}
		m.queue = e.Queue
		m.members = membersOf(e.Queue)
	case topKey:
		do = m.press(string(e))
	}
	m.past = m.history.Grants(m.open)
	m.list.settle(len(m.locks), m.rows(), func(i int) string { return m.locks[i].Name })
	m.line.settle(len(m.members), m.rows(), func(i int) string { return m.members[i].ID })
	m.grant.settle(len(m.past), m.rows(), func(i int) string { return fmt.Sprint(m.past[i].ID, m.past[i].Token) })
	return do
}

// followed is the lock whose state is to be read; "" if none is.
func (m *topModel) followed() string {
	if m.paused {
		return ""
	}
	return m.open
}

// take keeps the last sample that says something. One that the backend has not answered says nothing.
func (m *topModel) take(s topSample) {
	m.trouble = ""
	if s.Err != nil {
		m.trouble = reason(s.Err)
		if !driver.IsPermanent(s.Err) {
			return
		}
	}
	if passed := s.At.Sub(m.sample.At); m.sample.At.IsZero() {
		m.rate = float64(s.Exchanges) / max(1, 10*s.Took.Seconds()) // as it is going to be
	} else if passed > 0 {
		m.rate = float64(s.exchanges-m.counted) / passed.Seconds()
	}
	m.sample, m.counted, m.waiters = s.Sample, s.exchanges, 0
	for _, q := range s.Locks {
		m.waiters += len(q.Waiters)
	}
	m.choose()
}

func (m *topModel) choose() { m.locks = m.choice.Of(m.sample.Locks, m.now) }

func membersOf(q interlock.Queue) (all []topMember) {
	for _, h := range q.Holders {
		all = append(all, topMember{Member: h, what: "holds"})
	}
	for i, w := range q.Waiters {
		all = append(all, topMember{Member: w, what: fmt.Sprint("waits ", i+1)})
	}
	for _, o := range q.Overruns {
		late := interlock.Member{ID: o.ID, Owner: o.Owner, Note: o.Note, Units: o.Units, Token: o.Token, Since: o.Since}
		all = append(all, topMember{late, "overruns", &o})
	}
	return all
}

// late is for how long the screen has not been true: the next sample is overdue, or has failed.
func (m *topModel) late() time.Duration {
	age := m.now.Sub(m.sample.At)
	if m.sample.At.IsZero() || m.paused || m.trouble == "" && age < 4*time.Second+12*m.sample.Usual {
		return 0
	}
	return age
}

// press takes a key in.
func (m *topModel) press(key string) any {
	if key == "ctrl-c" {
		return topQuit{interrupted: true}
	}
	if m.pasting && m.mode != topFilter { // a pasted text does not command
		return nil
	}
	m.said = ""
	switch m.mode {
	case topHelp:
		m.mode = topBrowse
		return nil
	case topFilter:
		m.filter(key)
		return nil
	case topRevoke, topEvict, topForce:
		return m.answer(key)
	}
	c, n := &m.list, len(m.locks)
	switch {
	case m.grants:
		c, n = &m.grant, len(m.past)
	case m.open != "":
		c, n = &m.line, len(m.members)
	}
	switch key {
	case "up", "k":
		c.move(-1, n)
	case "down", "j":
		c.move(1, n)
	case "pgup":
		c.move(-m.rows(), n)
	case "pgdn", " ":
		c.move(m.rows(), n)
	case "home", "g":
		*c = cursor{}
	case "end", "G":
		c.move(n, n)
	case "r", "e":
		m.pick(key)
	default:
		return m.browse(key)
	}
	return nil
}

// browse takes in a key that does not move the cursor.
func (m *topModel) browse(key string) any {
	switch key {
	case "q":
		return topQuit{}
	case "?":
		m.mode = topHelp
	case "p":
		m.paused = !m.paused
	case "enter", "right":
		if m.open == "" && len(m.locks) > 0 {
			m.queue = m.locks[m.list.at]
			m.open, m.members, m.line = m.queue.Name, membersOf(m.queue), cursor{}
		}
	case "tab":
		m.grants, m.grant = m.open != "" && !m.grants, cursor{}
	case "esc", "left", "backspace":
		switch {
		case m.grants:
			m.grants = false
		case m.open != "":
			m.open, m.members = "", nil
		default:
			m.choice.Text = ""
			m.choose()
		}
	case "s":
		i := slices.Index(view.Orders, m.choice.Order)
		m.choice.Order = view.Orders[(i+1)%len(view.Orders)]
		m.choose()
	case "w":
		m.choice.Waiting = !m.choice.Waiting
		m.choose()
	case "/":
		m.mode = topFilter
		if m.open != "" { // a typed text must not command
			m.open, m.members, m.grants = "", nil, false
		}
	}
	return nil
}

// filter takes in a key of the text to look for, which counts at once.
func (m *topModel) filter(key string) {
	switch key {
	case "enter":
		m.mode = topBrowse
	case "esc":
		m.mode, m.choice.Text = topBrowse, ""
	default:
		m.choice.Text = edited(m.choice.Text, key)
	}
	m.choose()
}

// edited is a text after one more key.
func edited(text, key string) string {
	r := []rune(text)
	switch {
	case key == "backspace":
		return string(r[:max(0, len(r)-1)])
	case len([]rune(key)) == 1 && len(r) < 100:
		return text + key
	}
	return text
}

// pick asks whether the member under the cursor is to be revoked or evicted: in the list, the holder of the lock.
func (m *topModel) pick(key string) {
	ask := topAsk{do: map[string]string{"r": "revoke", "e": "evict"}[key]}
	switch {
	case m.grants, m.open == "" && len(m.locks) == 0, m.open != "" && len(m.members) == 0:
		return
	case m.open == "":
		q := m.locks[m.list.at]
		if len(q.Holders) != 1 {
			m.said = fmt.Sprintf("it has %d holders: open it with Enter, and choose", len(q.Holders))
			return
		}
		ask.name, ask.member = q.Name, q.Holders[0]
	default:
		picked := m.members[m.line.at]
		if picked.overrun != nil {
			m.said = "its lock is lost already; only its program can end the work"
			return
		}
		ask.name, ask.member, ask.waits = m.open, picked.Member, strings.HasPrefix(picked.what, "waits")
	}
	ask.left = m.left(ask.member)
	m.picked, m.mode, m.typed = ask, topEvict, ""
	if key == "r" {
		m.mode = topRevoke
	}
}

// answer takes in a key after a question. What is asked of the backend is bound to the ID that the question was about.
func (m *topModel) answer(key string) any {
	mode := m.mode
	switch {
	case mode == topForce && key == "enter" && m.typed == "force":
		m.picked.do = "force"
	case mode == topForce && key != "enter" && key != "esc":
		m.typed = edited(m.typed, key)
		return nil
	case mode == topEvict && key == "f" && !m.picked.waits:
		m.mode = topForce
		return nil
	case mode == topForce, mode == topEvict && key != "Y", mode == topRevoke && key != "y": // Y: typed text seldom has it
		m.mode, m.said = topBrowse, "nothing was done"
		return nil
	}
	m.mode, m.said = topBrowse, "asking the backend …"
	return m.picked
}

// cursor is a place in a list whose rows come and go. It stays on the row with its key, and on the first row without
// one.
type cursor struct {
	key       string
	moved     bool // since settle has read the key
	at, first int  // the row, and the first that is seen
}

func (c *cursor) move(by, n int) { c.at, c.moved = max(0, min(c.at+by, n-1)), true }

// settle finds the row again, of n rows. The screen has room for so many.
func (c *cursor) settle(n, seen int, key func(int) string) {
	c.at = max(0, min(c.at, n-1))
	switch {
	case n == 0:
	case c.moved:
		c.key, c.moved = key(c.at), false
	case c.key == "":
		c.at = 0
	case key(c.at) != c.key:
		for i := range n {
			if key(i) == c.key {
				c.at = i
			}
		}
		c.key = key(c.at)
	}
	c.first = max(0, min(max(c.first, c.at-seen+1), c.at, n-seen))
}
