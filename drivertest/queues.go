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
	t.Helper()
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
	t.Helper()
	listed(t, d.Queues, func(q driver.Queue) string {
		t.FatalIf(len(q.Members) == 0, "Queues lists %q, which has no ticket", q.Name)
		return q.Name
	}, names, prefixes...)
}

// cells checks which cells are listed.
func (t *trial) cells(d driver.Driver, names []string, prefixes ...string) {
	t.Helper()
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
		tickets = append(tickets, a.hold(driver.Request{ID: newID(), Queue: name, Kind: driver.Mutex, Units: 1, Capacity: 1}))
		if i%3 == 0 {
			a.wait(driver.Request{ID: newID(), Queue: name, Kind: driver.Mutex, Units: 1, Capacity: 1})
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
