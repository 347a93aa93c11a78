package main

import (
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/bench/workload"
)

// Each contender does in each workload what it is measured for, on the server.
func TestAllDoNothingWrong(t *testing.T) {
	e := workload.Env{Time: 100 * time.Millisecond, Limit: 30 * time.Second, Waiters: 20}
	for _, b := range backends {
		t.Run(b.Name, func(t *testing.T) {
			s, err := b.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, w := range workload.All() {
				for _, c := range b.Contenders(s.URL) {
					if !w.Takes(c) {
						continue
					}
					t.Run(w.Name+"/"+c.Name, func(t *testing.T) {
						if r := w.Run(t.Context(), c, e); r.Bad() || len(r.Figures) == 0 {
							t.Errorf("%+v", r)
						}
					})
				}
			}
		})
	}
}

// What a lease costs is known of each backend.
func TestCostIsKnown(t *testing.T) {
	for _, b := range backends {
		t.Run(b.Name, func(t *testing.T) {
			bytes, err := costOn(t.Context(), b, 100)
			if err != nil || len(bytes) == 0 || slices.Max(bytes) <= 0 {
				t.Errorf("%v, %v", bytes, err)
			}
		})
	}
}
