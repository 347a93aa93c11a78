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
				sent, counted := r.Figures["bytes sent/hand-off"]
				if w.Name == "W5" && (r.Figures["drained"] != waiters || counted && sent <= 0) {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// Contender returns the one of the name.
func Contender(t *testing.T, all []workload.Contender, name string) workload.Contender {
	t.Helper()
	for _, c := range all {
		if c.Name == name {
			return c
		}
	}
	t.Fatal("no contender ", name)
	panic("unreachable")
}

// Usage is what n pairs of Lock and Release cost the server, without the questions of
// usage that are asked meanwhile. It fails if they cost no time, or no bytes.
func Usage(t *testing.T, s workload.Server, contender workload.Contender, n int) (commands, transactions float64) {
	t.Helper()
	c, err := contender.Open(t.Context(), workload.Options{TTL: time.Minute, Clients: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	usage := func() workload.Usage {
		u, err := s.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	before := usage()
	for range n {
		h, err := c.Lock("a")(t.Context())
		if err == nil {
			usage()
			err = h.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	after := usage()
	if after.CPU <= before.CPU || after.Sent <= before.Sent || after.Received <= before.Received {
		t.Errorf("%+v after %+v", after, before)
	}
	return after.Commands - before.Commands, after.Transactions - before.Transactions
}
