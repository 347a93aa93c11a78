package memlock_test

import (
	"context"
	"encoding/hex"
	"testing"

	"github.com/interlock-go/interlock/backend/memlock"
)

// counter makes IDs cheaply.
type counter [16]byte

func (c *counter) next() string {
	for i := range c {
		if c[i]++; c[i] != 0 {
			break
		}
	}
	return hex.EncodeToString(c[:])
}

func BenchmarkJoinLeave(b *testing.B) {
	d := memlock.New()
	defer d.Close()
	s := open(b, d)
	ctx := context.Background()
	r := mutex("orders/1")
	var c counter
	b.ReportAllocs()
	for b.Loop() {
		r.ID = c.next()
		k, err := s.Join(ctx, r)
		ok(b, err)
		ok(b, s.Leave(ctx, k, true))
	}
}
