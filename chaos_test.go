package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

// hall counts what is held of one lock, by leases that have not ended.
type hall struct {
	mu       sync.Mutex
	capacity int64
	inside   map[*interlock.Lease]int64
	grants   int
}

func (h *hall) enter(t *testing.T, l *interlock.Lease, units int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grants++
	h.inside[l] = units
	used := int64(0)
	for lease, units := range h.inside {
		if lease.Err() == nil {
			used += units
		}
	}
	if used > h.capacity {
		t.Errorf("%s: %d of %d units are held", l.Name(), used, h.capacity)
	}
}

func (h *hall) leave(l *interlock.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.inside, l)
}

// Everything at once: all kinds of locks, cancelled waits, tries, work that is
// longer than its lease may last, downgrades, and calls that fail, hang, come
// late or are cut off. Capacities are never exceeded, and afterwards everything
// goes on.
func TestChaos(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		simulatedAs(t, fmt.Sprint(seed), func(t *testing.T) { chaos(t, uint64(seed)) })
	}
}

func chaos(t *testing.T, seed uint64) {
	w := memlock.NewWorld()
	const clients, workers, rounds, ttl = 4, 6, 12, 3 * time.Second
	const all = int64(1) << 30
	halls := map[string]*hall{
		"mutex": {capacity: 1}, "rw": {capacity: all}, "permits": {capacity: 5}, "strict": {capacity: 1},
		"election": {capacity: 1}, "hold": {capacity: 1},
	}
	for _, h := range halls {
		h.inside = map[*interlock.Lease]int64{}
	}
	lock := func(r *rand.Rand, c *interlock.Client) (l *interlock.Lock, units int64) {
		sides := func() []interlock.Option {
			return [][]interlock.Option{nil, {interlock.StrictOrder()}, {interlock.Sticky()}, {interlock.ReportDeath()}}[r.IntN(4)]
		}
		switch r.IntN(9) {
		case 0, 1:
			return c.Mutex("mutex"), 1
		case 2:
			return c.Mutex("mutex", interlock.Sticky()), 1
		case 3:
			return c.RWMutex("rw", sides()...).Reader(), 1
		case 4:
			return c.RWMutex("rw", sides()...).Writer(), all
		case 5:
			n := 1 + r.Int64N(5)
			return c.Semaphore("permits", 5, interlock.Weight(n)), n
		case 6:
			return c.Mutex("strict", interlock.StrictOrder(), interlock.ReportDeath()), 1
		case 7:
			return c.Election("election").Candidate("c"), 1
		}
		return c.Mutex("hold", interlock.ExpiresAfter(time.Duration(1+r.IntN(5000))*time.Millisecond)), 1
	}

	var members []member
	var wg sync.WaitGroup
	for i := range clients {
		m := join(t, w, interlock.TTL(ttl))
		members = append(members, m)
		for j := range workers {
			r := rand.New(rand.NewPCG(seed, uint64(i*workers+j)))
			wg.Go(func() {
				for range rounds {
					l, units := lock(r, m.Client)
					h := halls[l.Name()]
					waiting, cancel := ctx, context.CancelFunc(func() {})
					if r.IntN(3) == 0 {
						waiting, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(500))*time.Millisecond)
					}
					acquire := l.Acquire
					if r.IntN(5) == 0 {
						acquire = l.TryAcquire
					}
					lease, err := acquire(waiting)
					cancel()
					if err != nil {
						if errors.Is(err, interlock.ErrMismatch) || errors.Is(err, interlock.ErrInvalid) {
							t.Error(err)
						}
						continue
					}
					h.enter(t, lease, units)
					if units == all && r.IntN(2) == 0 {
						h.leave(lease)
						_ = lease.Downgrade(ctx)
						h.enter(t, lease, 1)
					}
					work := time.Duration(r.IntN(100)) * time.Millisecond
					if r.IntN(20) == 0 {
						work = time.Duration(r.IntN(8000)) * time.Millisecond
					}
					time.Sleep(work)
					h.leave(lease)
					_ = lease.Release()
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()

	r := rand.New(rand.NewPCG(seed, 999))
	methods := []string{"", "", "Join", "Leave", "Renew", "Keep", "Shrink", "Await"}
	for began := time.Now(); !ended(done) && time.Since(began) < time.Minute; {
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		f := members[r.IntN(clients)].faults()
		point := f.Before(methods[r.IntN(len(methods))], 1)
		if r.IntN(2) == 0 {
			point = f.After(methods[r.IntN(len(methods))], 1)
		}
		later := time.Duration(r.IntN(10_000)) * time.Millisecond
		switch r.IntN(4) {
		case 0:
			point.Fail()
		case 1:
			time.AfterFunc(later, point.Hang().Lose)
		case 2:
			time.AfterFunc(later, point.Hang().Deliver)
		case 3:
			f.Cut()
			time.AfterFunc(later, f.Heal)
		}
	}
	time.Sleep(11 * time.Second)
	for _, m := range members {
		m.faults().Clear()
		m.faults().Heal()
	}
	<-done
	for name, h := range halls {
		if h.grants < 5 {
			t.Errorf("%s: %d grants", name, h.grants)
		}
	}
	time.Sleep(5 * ttl)
	nothingLeft(t, members...)
	for name := range halls {
		l := map[string]*interlock.Lock{
			"rw": members[0].RWMutex(name).Writer(), "permits": members[0].Semaphore(name, 5, interlock.Weight(5)),
			"election": members[0].Election(name).Candidate(""),
		}[name]
		if l == nil {
			l = members[0].Mutex(name)
		}
		ok(t, errtest.Must(l.TryAcquire(ctx))(t).Release())
	}
}
