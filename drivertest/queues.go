package drivertest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/driver"
)

const queuesSays = "Queues lists the queues that have at least one ticket and whose names begin with prefix, in the order of their names."

// list reads the names of the queues with the prefix.
func (t *trial) list(d driver.Driver, prefix string) []string {
	t.Helper()
	var names []string
	for q, err := range d.Queues(t.Ctx, prefix) {
		t.OK(err, "Queues")
		if len(q.Members) == 0 {
			t.Fatalf("Queues lists %q, which has no ticket", q.Name)
		}
		if n := len(names); n > 0 && q.Name <= names[n-1] { // else the list might never end
			t.Fatalf("Queues lists %q after %q", q.Name, names[n-1])
		}
		names = append(names, q.Name)
	}
	return names
}

var _ = rules.Add(rule{Name: "Queues", Says: []string{queuesSays}}, func(t *trial) {
	a := t.client()
	d := t.driver()
	if got := t.list(d, ""); len(got) != 0 {
		t.Fatalf("Queues of an empty world: %q", got)
	}
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
	check := func(names []string) {
		t.Helper()
		for _, prefix := range prefixes {
			var want []string
			for _, name := range names {
				if strings.HasPrefix(name, prefix) {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			if got := t.list(d, prefix); !slices.Equal(got, want) {
				t.Fatalf("Queues with the prefix %q are %q, not %q", prefix, got, want)
			}
		}
	}
	check(names)
	for q, err := range d.Queues(t.Ctx, "a/") {
		if err != nil || q.Name != "a/b" || q.Kind != driver.Mutex || q.Capacity != 1 || !q.Members[0].Held {
			t.Fatalf("Queues lists first %+v, %v", q, err)
		}
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
	check(rest)

	ctx, cancel := context.WithCancel(t.Ctx)
	cancel()
	var failed error
	for _, err := range d.Queues(ctx, "") {
		if err != nil {
			failed = err
		}
	}
	if !errors.Is(failed, context.Canceled) {
		t.Fatalf("Queues with a context that has ended: %v", failed)
	}
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
	slices.Sort(names)
	if got := t.list(t.driver(), "many/"); !slices.Equal(got, names) {
		t.Fatalf("Queues lists %d of %d, or in another order", len(got), len(names))
	}
})
