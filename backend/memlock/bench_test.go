package memlock_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
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

func TestJoinAndLeaveAllocateNothing(t *testing.T) {
	d := memlock.New()
	defer d.Close()
	s := open(t, d)
	ctx := context.Background()
	r := mutex("orders/1")
	const runs = 20000
	ids := make([]string, 0, runs+1)
	var c counter
	for range runs + 1 {
		ids = append(ids, c.next())
	}
	if n := testing.AllocsPerRun(runs, func() {
		r.ID, ids = ids[0], ids[1:]
		k, err := s.Join(ctx, r)
		if err == nil {
			err = s.Leave(ctx, k, true)
		}
		if err != nil {
			t.Error(err)
		}
	}); n != 0 { // the memory of past IDs grows, but less than once per run
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkJoinLeave(b *testing.B) {
	d := memlock.New()
	defer d.Close()
	s := open(b, d)
	ctx := context.Background()
	r := mutex("orders/1")
	var c counter
	b.ReportAllocs() // one is the ID
	for b.Loop() {
		r.ID = c.next()
		k, err := s.Join(ctx, r)
		if err == nil {
			err = s.Leave(ctx, k, true)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// A hand-over costs the same however many wait, and so does leaving from the
// middle.
func BenchmarkHandOver(b *testing.B) {
	for _, waiters := range []int{10, 1000, 100000} {
		b.Run(fmt.Sprint(waiters), func(b *testing.B) {
			d := memlock.New()
			defer d.Close()
			s := open(b, d)
			ctx := context.Background()
			r := mutex("orders/1")
			var c counter
			line := make([]driver.Ticket, waiters)
			for i := range line {
				r.ID = c.next()
				line[i] = join(b, s, r)
			}
			i := 0
			for b.Loop() {
				err := s.Leave(ctx, line[i%waiters], true)
				if err == nil {
					r.ID = c.next()
					line[i%waiters], err = s.Join(ctx, r)
				}
				if err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
