package drivertest

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

const queuesSays = "Queues lists the queues that have at least one ticket and whose names begin with prefix, in the order of their names."

// listed checks what a list has with each of the prefixes, where these names are to be listed. The list is in order, or
// else it might never end.
func listed[V any](t *trial, list func(ctx context.Context, prefix string) iter.Seq2[V, error], name func(V) string, names []string, prefixes ...string) {
	for _, prefix := range prefixes {
		var got []string
		for v, err := range list(t.Ctx, prefix) {
			t.OK(err, "list")
			n := len(got)
			t.FatalIf(n > 0 && name(v) <= got[n-1], "%+v is listed after %q", v, got)
			got = append(got, name(v))
		}
		want := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { return !strings.HasPrefix(name, prefix) })
		t.FatalIf(!slices.Equal(got, want), "the list of the prefix %q is %q, not %q", prefix, got, want)
	}
}

// queues checks which queues are listed.
func (t *trial) queues(d driver.Driver, names []string, prefixes ...string) {
	listed(t, d.Queues, func(q driver.Queue) string {
		t.FatalIf(len(q.Members) == 0, "Queues lists %q, which has no ticket", q.Name)
		return q.Name
	}, names, prefixes...)
}

// cells checks which cells are listed.
func (t *trial) cells(d driver.Driver, names []string, prefixes ...string) {
	listed(t, d.Cells, func(name string) string { return name }, names, prefixes...)
}

var _ = rules.Add(rule{Name: "Queues", Says: []string{queuesSays}}, func(t *trial) {
	a := t.client()
	d := t.driver()
	t.queues(d, nil, "")
	names := []string{
		"a", "A", "a%", "a%b", "a_", "a_b", "aXb", "a*", "a?b", "a[b]", "a\\", "a'b", "a/b", "a/b/c", "a-b", "a.b", "ab", "b",
		"ä", "z", "é", "e\u0301", "日本", "a\U0001F512",
	}
	var tickets []driver.Ticket
	for i, name := range names {
		tickets = append(tickets, a.hold(mutex(name)))
		if i%3 == 0 {
			a.wait(mutex(name))
		}
	}
	prefixes := []string{"", "a", "A", "a%", "a_", "a*", "a?", "a[", "a\\", "a'", "a/", "a/b", "a/b/", "a/b/c", "a/b/c/", "ab", "b", "c", "%", "_", "e", "é", "日"}
	t.queues(d, names, prefixes...)
	for q, err := range d.Queues(t.Ctx, "a/") {
		t.FatalIf(err != nil || q.Name != "a/b" || q.Kind != driver.Mutex || q.Capacity != 1 || !q.Members[0].Held,
			"Queues lists first %+v, %v", q, err)
		break // a caller may have seen enough
	}

	// An empty queue is not listed.
	var rest []string
	for i, name := range names {
		if i%3 == 1 {
			a.leave(tickets[i])
		} else {
			rest = append(rest, name)
		}
	}
	t.queues(d, rest, prefixes...)

	ctx, cancel := context.WithCancel(t.Ctx)
	cancel()
	t.Is(ended(d.Queues(ctx, "")), context.Canceled, "Queues with a context that has ended")
})

var _ = rules.Add(rule{Name: "ManyQueues", Says: []string{queuesSays}}, func(t *trial) {
	a := t.client()
	var names []string
	for i := range t.size(1200, 300) {
		name := "many/" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + "/" + strings.Repeat("y", i/100+1) + string(rune(0x4e00+i))
		names = append(names, name)
		a.hold(permits(name, 1, 3))
		t.Allow(0)
	}
	t.queues(t.driver(), names, "many/")
})

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
		q := t.snapshot(d, name)
		t.FatalIf(len(q.Members) != 1, "the queue %q is %+v beside a cell of the same name", name, q)
		t.swap(d, remove(name, cells[name].Version))
		t.Allow(0)
	}
	t.queues(d, names, "") // no cells are among them
	t.swap(d, set("only a cell", 0, "v"))
	q := t.snapshot(d, "only a cell")
	t.FatalIf(len(q.Members) != 0, "a cell is a queue: %+v", q)
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
			m := t.snapshot(a.driver, other.Queue).Members
			t.FatalIf(len(m) != 2 || m[1].Held, "a Leave of %q moved %q: %+v", held[i].Queue, other.Queue, m)
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
		got, err := d.Watch(t.Ctx, long, 0)
		t.FatalIf(err != nil || got.Version != c.Version, "Watch of a long name: %s, %v", show(got), err)
		t.Allow(0)
	}
})
