package drivertest

import (
	"slices"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

// edges are names at their limits and names that are nearly the same.
func edges() []string {
	segment := strings.Repeat("s", 200)
	names := []string{
		"foo", "foo/bar", "foo/bar/baz", "foo-bar", "foo.bar", "foo:bar", "foo%2Fbar", "foo\\bar", "Foo", "FOO", "foo ", " foo", "foo/ bar",
		"...", "a..b", ".hidden", "a.", "-", "--", "~", "#", "?", "*", "%", "_", "'", "\"", "`", "$", "$x", "&", ";", "|", "<>", "[a]", "(a)", "@", "!", "^", "+", "=", ",",
		"lock", "null", "NULL", "nil", "0", "00", "-1", "1e3", "con", "nul", "aux.txt",
		"\u00e9", "e\u0301", // the same letter, composed and not
		"\u200b", "a\u200bb", "a\u00adb", "\u202eabc", "\u00a0", "\u3000", // invisible
		"日本語", "עברית", "🔒", "👩‍🚀", "ß", "ss", "ﬀ", "ff", "İ", "i̇", "ı", "K", "K",
		"\U0001D573", "\uFE0F", "\U000E0001",
		segment, segment + "/" + segment + "/" + strings.Repeat("t", 110), // 512 bytes
		segment + "/" + segment + "/" + strings.Repeat("t", 109) + "u",
		strings.Repeat("é", 100), strings.Repeat("🔒", 50), strings.Repeat("日", 66) + "ab",
		strings.Repeat("a/", 255) + "ab", strings.Repeat("%", 200), strings.Repeat("'", 200),
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var _ = rules.Add(rule{Name: "Names", Says: []string{
	"A name is UTF-8, 1 to 512 bytes, in segments of at most 200 bytes joined by \"/\", none of them empty, \".\" or \"..\".",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	names := edges()
	held := map[string]driver.Ticket{}
	for _, name := range names {
		t.OK(driver.CheckName(name), "the suite is wrong")
		held[name] = a.hold(t.exclusive(name)) // all at once: no two are the same
		t.Allow(0)
	}
	t.queues(b.driver, names, "")
	for _, name := range names {
		next := b.wait(t.exclusive(name))
		a.leave(held[name])
		b.await(next)
		t.stands(a.driver, name, []driver.Ticket{next}, nil)
		t.Allow(0) // for each name
	}
})

var _ = rules.Add(rule{Name: "NamesOfCells", Says: []string{
	"Queues and cells have separate name spaces.",
}}, func(t *trial) {
	a := t.client()
	d := t.driver()
	names := edges()
	cells := map[string]driver.Cell{}
	for _, name := range names {
		a.hold(t.exclusive(name))
		t.holds(d, name, driver.Cell{})
		cells[name] = t.swap(d, set(name, 0, "value of "+name))
		t.Allow(0)
	}
	for _, name := range names {
		t.holds(a.driver, name, cells[name])
		if q := t.snapshot(d, name); len(q.Members) != 1 {
			t.Fatalf("the queue %q is %+v beside a cell of the same name", name, q)
		}
		t.swap(d, remove(name, cells[name].Version))
		t.Allow(0)
	}
	t.queues(d, names, "") // no cells are among them
	t.swap(d, set("only a cell", 0, "v"))
	if q := t.snapshot(d, "only a cell"); len(q.Members) != 0 {
		t.Fatalf("a cell is a queue: %+v", q)
	}
})

// A name beside another that begins with it is another lock.
var _ = rules.Add(rule{Name: "Neighbours", Exclusive: true, Says: []string{theRule}}, func(t *trial) {
	a, b := t.client(), t.client()
	chain := []string{"foo", "foo/bar", "foo/bar/baz", "fo", "foo/b"}
	var held, next []driver.Ticket
	for i := range chain {
		name := chain[len(chain)-1-i]
		held = append(held, a.hold(t.exclusive(name)))
		next = append(next, b.wait(t.exclusive(name)))
	}
	for i := range held {
		a.leave(held[i])
		b.await(next[i])
		for _, other := range next[i+1:] {
			if m := t.snapshot(a.driver, other.Queue).Members; len(m) != 2 || m[1].Held {
				t.Fatalf("a Leave of %q moved %q: %+v", held[i].Queue, other.Queue, m)
			}
		}
	}
})

var _ = rules.Add(rule{Name: "LongNamesOfCells", Says: []string{
	"Names of queues satisfy [CheckName], those of cells [CheckCell].",
	"CheckCell is CheckName for the name of a cell, which, like each of its segments, may have 16 bytes more.",
}}, func(t *trial) {
	d, other := t.driver(), t.driver()
	var names []string
	for _, name := range edges() {
		names = append(names, "0123456789abcde/"+name, "0123456789abcdef"+name)
	}
	for _, long := range names {
		t.OK(driver.CheckCell(long), "the suite is wrong")
		c := t.swap(d, set(long, 0, "v"))
		t.holds(other, long, c)
		if got, err := d.Watch(t.Ctx, long, 0); err != nil || got.Version != c.Version {
			t.Fatalf("Watch of a long name: %s, %v", show(got), err)
		}
		t.Allow(0)
	}
})
