package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)

// modelOf is a model of some locks, each with a holder and as many waiters as its place in the list.
func modelOf(columns, lines int, names ...string) *topModel {
	m := &topModel{backend: "mem:", history: view.NewHistory(), choice: view.Choice{Order: "name"}}
	m.update(noon, topSize{columns, lines})
	m.update(noon, sampleOf(noon, names...))
	return m
}

func sampleOf(at time.Time, names ...string) topSample {
	var locks []interlock.Queue
	for i, name := range names {
		q := interlock.Queue{Name: name, Kind: "mutex", Capacity: 1, Holders: []interlock.Member{memberOf("holder of "+name, at)}}
		for j := range i {
			q.Waiters = append(q.Waiters, memberOf(fmt.Sprintf("waiter %d of %s", j, name), at))
		}
		locks = append(locks, q)
	}
	return topSample{Sample: view.Sample{At: at, Locks: locks, Took: time.Millisecond}}
}

func memberOf(owner string, at time.Time) interlock.Member {
	return interlock.Member{ID: "id of " + owner, Owner: owner, Units: 1, Since: at.Add(-time.Minute), Until: at.Add(10 * time.Second)}
}

func press(m *topModel, keys ...string) (do any) {
	for _, key := range keys {
		do = m.update(m.now, topKey(key))
	}
	return do
}

// drawn is the screen of a model.
func drawn(m *topModel) string {
	var b strings.Builder
	for _, line := range m.frame() {
		x := 0
		for _, s := range line {
			b.WriteString(strings.Repeat(" ", max(0, s.x-x)))
			text := fit(s.text, s.cells)
			b.WriteString(text)
			x = max(x, s.x) + uniseg.StringWidth(text)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func mustShow(t *testing.T, m *topModel, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(drawn(m), text) {
			t.Errorf("%q is not on the screen:\n%s", text, drawn(m))
		}
	}
}

// Promise: the cursor of top stays on its lock when others come and go, and before the first key it is on the first
// line.
func TestTopsCursorStaysOnItsLock(t *testing.T) {
	m := modelOf(80, 24, "b", "c", "d")
	mustShow(t, m, "> b")
	m.update(noon, sampleOf(noon, "a", "b", "c", "d"))
	mustShow(t, m, "> a")
	press(m, "down", "down")
	mustShow(t, m, "> c")
	m.update(noon, sampleOf(noon, "c", "d"))
	mustShow(t, m, "> c")
	press(m, "s") // waiting: d has one, c none
	if seen := drawn(m); strings.Index(seen, "  d") > strings.Index(seen, "> c") {
		t.Errorf("the order is not by waiters, or the cursor has moved:\n%s", seen)
	}
	m.update(noon, sampleOf(noon, "d"))
	mustShow(t, m, "> d")
	m.update(noon, sampleOf(noon))
	if do := press(m, "enter", "e", "r", "down"); do != nil {
		t.Errorf("without locks it wants %#v", do)
	}
}

// Promise: what top asks of the backend is about the member that the question was about, whoever holds by then.
func TestTopEvictsTheMemberOfTheQuestion(t *testing.T) {
	m := modelOf(80, 24, "a", "b")
	press(m, "down", "enter")
	for _, want := range []string{"b", "", "b"} {
		if got := m.followed(); got != want {
			t.Fatalf("it follows %q, want %q", got, want)
		}
		press(m, "p")
	}
	press(m, "p")
	press(m, "e")
	mustShow(t, m, "Evict holder of b (id of ho…) from b?", "10s left")
	q := interlock.Queue{Name: "b", Kind: "mutex", Capacity: 1, Holders: []interlock.Member{memberOf("another", noon)}}
	m.update(noon.Add(5*time.Second), topQueue{"b", q, nil})
	mustShow(t, m, "Evict holder of b (id of ho…) from b?", "10s left")
	if do, ok := press(m, "Y").(topAsk); !ok || do.do != "evict" || do.name != "b" || do.member.ID != "id of holder of b" {
		t.Errorf("it wants %#v", do)
	}
	mustShow(t, m, "> holds      another")

	for _, keys := range [][]string{{"e", "n"}, {"e", "y"}, {"e", "enter"}, {"e", "esc"}, {"e", "q"}, {"e", "f", "Y", "enter"}, {"e", "f", "enter"}, {"r", "x"}, {"r", "f"}} {
		if do := press(m, keys...); do != nil {
			t.Errorf("after %v it wants %#v", keys, do)
		}
		mustShow(t, m, "nothing was done")
	}
	if do, ok := press(m, "e", "f", "f", "o", "r", "c", "x", "backspace", "e", "enter").(topAsk); !ok || do.do != "force" {
		t.Errorf("after the word force it wants %#v", do)
	}
	if do, ok := press(m, "r", "y").(topAsk); !ok || do.do != "revoke" {
		t.Errorf("it wants %#v", do)
	}
	m.update(noon, topQueue{"a", interlock.Queue{Name: "a"}, nil}) // of a lock that was open before
	mustShow(t, m, "> holds      another")
}

// Promise: a text to look for that is typed while a lock is open is looked for, and commands nothing.
func TestATextToLookForIsNoCommand(t *testing.T) {
	m := modelOf(80, 24, "keys", "other")
	press(m, "enter")
	if press(m, "/"); m.followed() != "" {
		t.Errorf("it follows %q", m.followed())
	}
	for _, key := range []string{"k", "e", "y", "s", "enter"} {
		if do := press(m, key); do != nil {
			t.Errorf("after %s it wants %#v", key, do)
		}
	}
	mustShow(t, m, "1 of 2", "keys")
}

// Promise: a waiter is evicted without force, and an overrun not at all.
func TestTopSaysWhatCannotBeEvicted(t *testing.T) {
	m := modelOf(80, 24, "a")
	q := interlock.Queue{Name: "a", Kind: "mutex", Capacity: 1, Holders: []interlock.Member{memberOf("h", noon)}, Waiters: []interlock.Member{memberOf("w", noon)},
		Overruns: []interlock.Overrun{{ID: "o", Owner: "late", Since: noon}}}
	press(m, "enter")
	m.update(noon, topQueue{"a", q, nil})
	press(m, "down", "e")
	mustShow(t, m, "Evict w (id of w) from the queue of a?", "lines up again at the end")
	if do := press(m, "f"); do != nil || m.mode != topBrowse {
		t.Errorf("force is offered for a waiter: %#v", do)
	}
	if do := press(m, "end", "e", "Y"); do != nil {
		t.Errorf("it wants %#v for an overrun", do)
	}
	mustShow(t, m, "> overruns   late", "lost")
	q.Holders[0].Foreign = true
	m.update(noon, topQueue{"a", q, nil})
	press(m, "home", "e")
	mustShow(t, m, "is of another library: it is only asked")
}

// Promise: a text that is pasted into top is no command, and it can be looked for.
func TestAPastedTextIsNoCommand(t *testing.T) {
	m := modelOf(80, 24, "a", "eye")
	m.update(noon, topPaste(true))
	if do := press(m, "e", "Y", "q"); do != nil || m.mode != topBrowse {
		t.Errorf("a pasted text wants %#v", do)
	}
	m.update(noon, topPaste(false))
	press(m, "/")
	m.update(noon, topPaste(true))
	press(m, "e", "y")
	m.update(noon, topPaste(false))
	mustShow(t, m, "/ey_", "locks: 1 of 2", "> eye")
	press(m, "enter")
	mustShow(t, m, "with ey")
	press(m, "esc")
	mustShow(t, m, "locks: 2")
}

// Promise: a sample that failed takes nothing off the screen of top, which says how old it is and why. A pause is no
// outage.
func TestTopKeepsTheLastStateOfABackendThatIsAway(t *testing.T) {
	m := modelOf(80, 24, "a", "b")
	m.update(noon.Add(2*time.Second), nil)
	if strings.Contains(drawn(m), "OLD:") {
		t.Errorf("a sample is old after two seconds:\n%s", drawn(m))
	}
	m.update(noon.Add(30*time.Second), nil)
	mustShow(t, m, "OLD: 30s ago. locks: 2", "> a", "! the backend has not answered yet")
	m.update(noon.Add(31*time.Second), topTrouble("the backend does not answer: no route"))
	mustShow(t, m, "OLD: 31s ago. locks: 2", "! the backend does not answer: no route")
	failed := topSample{Sample: view.Sample{At: noon.Add(32 * time.Second), Err: errors.New("connection refused")}}
	m.update(noon.Add(32*time.Second), failed)
	mustShow(t, m, "OLD: 32s ago. locks: 2", "> a", "! connection refused")
	good := sampleOf(noon.Add(33*time.Second), "a")
	good.exchanges = 99
	m.update(noon.Add(33*time.Second), good)
	mustShow(t, m, "\nlocks: 1, waiters: 0; listed in 1ms, 3 exchanges/s; by name")
	if strings.Contains(drawn(m), "!") {
		t.Errorf("it is still in trouble:\n%s", drawn(m))
	}
	press(m, "p")
	m.update(noon.Add(time.Hour), sampleOf(noon.Add(time.Hour), "x"))
	mustShow(t, m, "PAUSED. locks: 1", "> a")
	press(m, "p")
	m.update(noon.Add(time.Hour), sampleOf(noon.Add(time.Hour), "x"))
	mustShow(t, m, "\nlocks: 1,", "> x")
}

// Promise: of 10,000 locks, and of 1,000 waiters, top makes what is seen, and no line is wider than the screen.
func TestTopMakesWhatIsSeen(t *testing.T) {
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("lock/%05d", i)
	}
	many := interlock.Queue{Name: names[9_999], Kind: "semaphore", Capacity: 3, Holders: []interlock.Member{memberOf("h", noon)}}
	for i := range 1_000 {
		many.Waiters = append(many.Waiters, memberOf(fmt.Sprint("w", i), noon))
	}
	for _, size := range [][2]int{{80, 24}, {40, 10}, {200, 60}, {20, 5}, {3, 2}, {1, 1}, {0, 0}} {
		m := modelOf(size[0], size[1])
		s := sampleOf(noon)
		for _, name := range names {
			s.Locks = append(s.Locks, interlock.Queue{Name: name, Kind: "mutex", Holders: []interlock.Member{memberOf("h", noon)}})
		}
		m.update(noon, s)
		look := func() {
			t.Helper()
			lines := m.frame()
			if len(lines) != size[1] {
				t.Errorf("%d lines on %v", len(lines), size)
			}
			for _, line := range strings.Split(drawn(m), "\n") {
				if n := uniseg.StringWidth(line); n > size[0] {
					t.Errorf("a line of %d cells on %v: %q", n, size, line)
				}
			}
			if n := testing.AllocsPerRun(5, func() { m.frame() }); n > 5_000 {
				t.Errorf("%v allocations for %v", n, size)
			}
		}
		look()
		press(m, "end")
		look()
		if size[1] >= 10 {
			mustShow(t, m, "> lock/09999")
		}
		press(m, "enter")
		m.update(noon, topQueue{many.Name, many, nil})
		look()
		press(m, "end")
		look()
		if size[1] >= 10 {
			mustShow(t, m, "> waits 1000")
		}
		press(m, "tab")
		look()
		press(m, "tab", "home", "e")
		look()
		press(m, "f")
		look()
		press(m, "esc", "?")
		look()
	}
}

// Promise: top shows how grants ended, also in a low terminal, after tab.
func TestTopShowsTheLastGrants(t *testing.T) {
	m := modelOf(80, 24, "a")
	press(m, "enter")
	mustShow(t, m, "last grants of a, seen since")
	low := modelOf(40, 10, "a")
	press(low, "enter")
	if strings.Contains(drawn(low), "last grants") {
		t.Errorf("a low screen has room for more than the queue:\n%s", drawn(low))
	}
	press(low, "tab")
	mustShow(t, low, "last grants of a")
	press(low, "esc")
	mustShow(t, low, "a is held by 1")
	if press(low, "esc"); low.followed() != "" || low.open != "" {
		t.Errorf("it does not go back: %q", low.followed())
	}
	for i, holder := range []string{"first", "second"} {
		q := interlock.Queue{Name: "a", Holders: []interlock.Member{memberOf(holder, noon)}}
		low.history.Look(q, noon.Add(time.Duration(i)*time.Second))
	}
	press(low, "enter", "tab")
	mustShow(t, low, "> 12:00:01", "second")
	press(low, "down")
	mustShow(t, low, "> before", "first")
	if do := press(low, "e", "Y"); do != nil || low.mode != topBrowse {
		t.Errorf("a grant that has ended can be evicted: %#v", do)
	}
}
