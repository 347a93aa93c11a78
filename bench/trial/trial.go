// Package trial checks that all contenders of a backend do what they are
// measured for.
package trial

import (
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/bench/workload"
)

// Start starts the server of a backend, which ends with the test.
func Start(t *testing.T, b workload.Backend) workload.Server {
	t.Helper()
	s, err := b.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// All runs all workloads but W9, which starts the program again, and a test is
// not that program.
func All(t *testing.T, b workload.Backend, s workload.Server) {
	const waiters = 50
	e := workload.Env{
		Backend: b.Name, Server: s, Time: 100 * time.Millisecond, Limit: 30 * time.Second,
		Waiters: waiters, Clients: 20, Leases: 100,
	}
	for _, w := range workload.All() {
		for _, c := range b.Contenders(s.URL()) {
			if w.Name == "W9" || !slices.Contains(c.Takes, w.Name) {
				continue
			}
			t.Run(w.Name+"/"+c.Name, func(t *testing.T) {
				if err := s.Clear(t.Context()); err != nil {
					t.Fatal(err)
				}
				r := w.Run(t.Context(), c, e)
				if r.Bad() || len(r.Figures) == 0 {
					t.Errorf("%+v", r)
				}
				if w.Name == "W5" && (r.Figures["drained"] != waiters || r.Figures["bytes sent/hand-off"] <= 0) {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}
