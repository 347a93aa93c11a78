package drivertest

import "github.com/interlock-go/interlock/driver"

// A stray that gets another end is no stray any more, and no renewal takes that end away.
var _ = rules.Add(rule{Name: "StrayWithAnotherEnd", Says: []string{
	"A ticket with a fixed end is not extended and never Stray: it needs nobody to renew it",
	"An evicted ticket that is held is not renewed any more",
}}, func(t *trial) {
	a, b := t.client(), t.client()
	evicted := a.hold(t.exclusive("evicted"))
	want := map[string]driver.State{evicted.ID: driver.Evicted}
	known := []driver.Ticket{evicted}
	if t.fixes() {
		kept := a.hold(t.exclusive("kept"))
		want[kept.ID] = driver.Kept
		known = append(known, kept)
	}
	strays := a.renew()
	for _, tk := range known {
		if r, ok := strays[tk.ID]; !ok || r.State != driver.Stray {
			t.Fatalf("Renew that does not name the ticket in %q: %+v, told %v; it must be Stray", tk.Queue, r, ok)
		}
	}
	t.OK(b.driver.Ask(t.Ctx, "evicted", evicted.ID, driver.Evict), "Ask")
	if len(known) > 1 {
		t.OK(a.Keep(t.Ctx, known[1], limit), "Keep of a stray")
	}
	before := t.snapshot(b.driver, "evicted").Members[0]
	for range 3 {
		answer := a.renew(known...)
		for _, tk := range known {
			if r, ok := answer[tk.ID]; !ok || r.State != want[tk.ID] {
				t.Fatalf("Renew of the ticket in %q, which was a stray before: %+v, told %v; the state must be %v", tk.Queue, r, ok, want[tk.ID])
			}
		}
	}
	if after := t.snapshot(b.driver, "evicted").Members[0]; after.Left > before.Left {
		t.Fatalf("an evicted ticket that was a stray had %v left before it was renewed, and %v after", before.Left, after.Left)
	}
	for _, tk := range known[1:] {
		if m := t.snapshot(b.driver, tk.Queue).Members[0]; !m.Fixed || m.Left > limit {
			t.Fatalf("a stray that was kept for %v, after renewals: %+v", limit, m)
		}
	}
})
