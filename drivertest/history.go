package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// history records what concurrent clients did, on one logical clock, for a check
// that some order explains it all.
type history struct {
	clock atomic.Int64
	mu    sync.Mutex
	all   []porcupine.Operation
}

func (h *history) record(client int, input any, call func() (output any)) {
	begin := h.clock.Add(1)
	output := call()
	end := h.clock.Add(1)
	if output == refused {
		return
	}
	h.mu.Lock()
	h.all = append(h.all, porcupine.Operation{ClientId: client, Input: input, Call: begin, Output: output, Return: end})
	h.mu.Unlock()
}

// refused is the output of what has changed nothing.
const refused = "refused"

func (h *history) check(t *trial, m porcupine.Model) {
	if !porcupine.CheckOperations(m, h.all) {
		var lines strings.Builder
		for _, o := range h.all {
			fmt.Fprintf(&lines, "\n\t%d-%d client %d: %v: %v", o.Call, o.Return, o.ClientId, o.Input, o.Output)
		}
		t.Fatalf("no order explains what the clients saw:%s", lines.String())
	}
}

// lockStep is a grant or a release of some units; a grant returns its token.
type lockStep struct {
	units   int64
	acquire bool
}

type lockState struct {
	used  int64
	token uint64 // of the last exclusive grant
}

// lockModel is a lock of a capacity. An exclusive grant takes all of it.
func lockModel(capacity int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lockState{} },
		Step: func(state, input, output any) (bool, any) {
			s, in := state.(lockState), input.(lockStep)
			if !in.acquire {
				s.used -= in.units
				return s.used >= 0, s
			}
			s.used += in.units
			if in.units == capacity {
				token := output.(uint64)
				if token <= s.token {
					return false, s
				}
				s.token = token
			}
			return s.used <= capacity, s
		},
	}
}

const concurrently = "All methods may be called concurrently."

// lockHistory lets clients acquire and release, and checks what they saw.
func lockHistory(t *trial, capacity int64, request func() driver.Request) {
	const workers = 6
	clients := []*client{t.client(), t.client(), t.client()}
	h := &history{}
	times := t.size(40, 15)
	t.Parallel(workers, func(i int) {
		c := clients[i%len(clients)]
		for range times {
			r := request()
			var tk driver.Ticket
			h.record(i, lockStep{r.Units, true}, func() any {
				var err error
				if tk, err = c.Join(t.Ctx, r); errors.Is(err, driver.ErrBusy) {
					return refused
				}
				t.OK(err, "Join")
				if !r.NoWait && rand.IntN(4) == 0 { // give up, then come back
					ctx, cancel := context.WithCancel(t.Ctx)
					cancel()
					t.OK(suite.Unless(suite.Err(c.Await(ctx, tk)), context.Canceled), "Await that is given up")
				}
				tk = c.await(tk)
				return tk.Token
			})
			if !tk.Held {
				continue
			}
			time.Sleep(rand.N(100 * time.Microsecond))
			h.record(i, lockStep{r.Units, false}, func() any { c.leave(tk); return nil })
		}
	})
	h.check(t, lockModel(capacity))
	t.stands(clients[0].driver, "q", nil, nil)
}

var _ = rules.Add(rule{Name: "ConcurrentLocks", Exclusive: true, Across: true, Says: []string{
	theRule,
	concurrently,
	tokensGrow,
}}, func(t *trial) {
	lockHistory(t, t.shape.capacity, func() driver.Request {
		r := t.exclusive("q")
		r.NoWait = rand.IntN(4) == 0
		return r
	})
})

var _ = rules.Add(rule{Name: "ConcurrentReadersAndWriters", Says: []string{
	theRule,
	concurrently,
	tokensGrow,
}}, func(t *trial) {
	lockHistory(t, driver.RWCapacity, func() driver.Request {
		if rand.IntN(3) == 0 {
			return writer("q")
		}
		return reader("q")
	})
})

var _ = rules.Add(rule{Name: "ConcurrentPermits", Says: []string{theRule, concurrently}}, func(t *trial) {
	lockHistory(t, 5, func() driver.Request { return permits("q", 1+rand.Int64N(5), 5) })
})

type cellStep struct {
	swap driver.Swap
	load bool
}

func (s cellStep) String() string {
	if s.load {
		return "load"
	}
	return fmt.Sprintf("swap version %d for %q, delete %v", s.swap.Version, s.swap.Value, s.swap.Delete)
}

type cellResult struct {
	cell     string // its value, "" if it does not exist
	version  uint64
	conflict bool
}

// cellModel is a versioned value.
var cellModel = porcupine.Model{
	Init: func() any { return cellResult{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(cellResult), input.(cellStep), output.(cellResult)
		switch {
		case in.load:
			return out == s, s
		case out.conflict:
			return in.swap.Version != s.version, s
		default:
			next := cellResult{version: out.version}
			if !in.swap.Delete {
				next.cell = string(in.swap.Value)
			}
			return in.swap.Version == s.version && out.version > s.version, next
		}
	},
}

var _ = rules.Add(rule{Name: "ConcurrentCells", Across: true, Says: []string{
	swapSays,
	concurrently,
	"Repeated with the same ID within SwapMemory it changes nothing more and returns the first result.",
}}, func(t *trial) {
	const workers = 6
	drivers := []driver.Driver{t.driver(), t.driver(), t.driver()}
	h := &history{}
	times := t.size(60, 20)
	t.Parallel(workers, func(i int) {
		d := drivers[i%len(drivers)]
		var seen driver.Cell
		for n := range times {
			if rand.IntN(2) == 0 {
				h.record(i, cellStep{load: true}, func() any {
					var err error
					seen, err = d.Load(t.Ctx, "c")
					t.OK(err, "Load")
					return cellResult{cell: string(seen.Value), version: seen.Version}
				})
			}
			s := set("c", seen.Version, fmt.Sprintf("%d by %d", n, i))
			if rand.IntN(4) == 0 {
				s = remove("c", seen.Version)
			}
			time.Sleep(rand.N(50 * time.Microsecond)) // let the others in between
			h.record(i, cellStep{swap: s}, func() any {
				c, err := d.Swap(t.Ctx, s)
				for range rand.IntN(3) { // as if the reply had been lost
					c, err = d.Swap(t.Ctx, s)
				}
				if errors.Is(err, driver.ErrConflict) {
					return cellResult{conflict: true}
				}
				t.OK(err, "Swap")
				seen = c
				return cellResult{cell: string(c.Value), version: c.Version}
			})
		}
	})
	h.check(t, cellModel)
})
