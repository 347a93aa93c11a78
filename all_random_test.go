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
)

// Whichever call of a client fails, before or after it had its effect, or hangs: no part has two
// holders, nobody waits for ever, and nothing is left behind.
func TestAnyCallOfAllMayFail(t *testing.T) { anyCallMayFail(t, "all", 25, scenarioOfAll) }

// scenarioOfAll has clients of two backends contend for several locks at once. One client runs into faults.
func scenarioOfAll(t *testing.T, arm func(*memlock.Faults)) {
	a, otherA := pair(t)
	b, otherB := pair(t)
	judges := map[string]*referee{"x": {t: t}, "y": {t: t}, "z": {t: t}}
	arm(a.faults())
	var wg sync.WaitGroup
	for _, all := range []*interlock.Lock{
		interlock.All(a.Mutex("x"), b.Mutex("y"), a.Mutex("z")),
		interlock.All(otherA.Mutex("z"), otherB.Mutex("y"), otherA.Mutex("x")),
		interlock.All(otherB.Mutex("y"), a.Mutex("z", interlock.StrictOrder())),
	} {
		wg.Go(func() {
			for range 3 {
				lease, err := all.Acquire(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				for _, p := range lease.Parts() {
					judges[p.Name()].enter(p)
				}
				time.Sleep(2 * time.Second)
				for _, p := range lease.Parts() {
					judges[p.Name()].leave(p)
				}
				if err := lease.Release(); err != nil && !errors.Is(err, interlock.ErrLost) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	a.faults().Clear()
	time.Sleep(4 * ttl)
	nothingLeft(t, a, b, otherA, otherB)
}

// Clients of three backends with multi-locks of random locks in random orders: cancelled waits, tries,
// work that takes long, locks of one name, and calls that fail, hang, come late or are cut off.
// No lock is held beyond its capacity, and afterwards everything goes on.
func TestAllUnderRandomFaults(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		simulatedAs(t, fmt.Sprint(seed), func(t *testing.T) { allUnderFaults(t, uint64(seed)) })
	}
}

func allUnderFaults(t *testing.T, seed uint64) {
	const backends, processes, workers, rounds, ttl = 3, 3, 4, 8, 3 * time.Second
	var worlds []*memlock.World
	halls := map[string]*hall{}
	for i := range backends {
		worlds = append(worlds, memlock.NewWorld())
		for name, capacity := range map[string]int64{"m": 1, "n": 1, "rw": 1 << 30, "s": 5} {
			halls[fmt.Sprint(i, name)] = &hall{capacity: capacity, inside: map[*interlock.Lease]int64{}}
		}
	}
	type part struct {
		lock  *interlock.Lock
		hall  *hall
		units int64
	}
	choose := func(r *rand.Rand, i int, c *interlock.Client) part {
		switch r.IntN(6) {
		case 0:
			return part{c.RWMutex("rw").Reader(), halls[fmt.Sprint(i, "rw")], 1}
		case 1:
			return part{c.RWMutex("rw").Writer(), halls[fmt.Sprint(i, "rw")], 1 << 30}
		case 2:
			n := 1 + r.Int64N(4)
			return part{c.Semaphore("s", 5, interlock.Weight(n)), halls[fmt.Sprint(i, "s")], n}
		case 3:
			return part{c.Mutex("n", interlock.StrictOrder()), halls[fmt.Sprint(i, "n")], 1}
		default:
			return part{c.Mutex("m"), halls[fmt.Sprint(i, "m")], 1}
		}
	}
	var all []member
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for p := range processes {
		var clients []member
		for i := range backends {
			m := join(t, worlds[i], interlock.TTL(ttl))
			clients, all = append(clients, m), append(all, m)
		}
		r := rand.New(rand.NewPCG(seed, uint64(p)))
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(r.IntN(5000)) * time.Millisecond):
				}
				f := clients[r.IntN(backends)].faults()
				switch r.IntN(5) {
				case 0, 1: // for longer than a TTL, or not
					f.Cut()
					time.Sleep(time.Duration(r.IntN(6000)) * time.Millisecond)
					f.Heal()
				case 2:
					f.After("", 1+r.IntN(4)).Fail()
				case 3:
					h := f.Before("", 1+r.IntN(4)).Hang()
					time.AfterFunc(time.Duration(r.IntN(8000))*time.Millisecond, h.Deliver)
				case 4:
					h := f.After("", 1+r.IntN(4)).Hang()
					time.AfterFunc(time.Duration(r.IntN(8000))*time.Millisecond, h.Lose)
				}
			}
		}()
		for i := range workers {
			r := rand.New(rand.NewPCG(seed, uint64(100*p+i+10)))
			wg.Go(func() {
				for range rounds {
					var parts []part
					var locks []*interlock.Lock
					seen := map[*hall]bool{}
					for range 1 + r.IntN(4) {
						b := r.IntN(backends)
						if one := choose(r, b, clients[b].Client); !seen[one.hall] {
							seen[one.hall] = true
							parts, locks = append(parts, one), append(locks, one.lock)
						}
					}
					lock := interlock.All(locks...)
					bounded, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(60_000))*time.Millisecond)
					acquire := lock.Acquire
					if r.IntN(4) == 0 {
						acquire = lock.TryAcquire
					}
					lease, err := acquire(bounded)
					cancel()
					if err != nil {
						if errors.Is(err, interlock.ErrLost) || errors.Is(err, interlock.ErrDeadlock) || errors.Is(err, interlock.ErrInvalid) {
							t.Error(err)
						}
						continue
					}
					for i, p := range lease.Parts() {
						parts[i].hall.enter(t, p, parts[i].units)
					}
					work, free := lease.Bind(ctx)
					select {
					case <-work.Done():
						if lease.Err() == nil {
							t.Error("the context has ended, and the lease has not")
						}
					case <-time.After(time.Duration(r.IntN(2000)) * time.Millisecond):
					}
					for i, p := range lease.Parts() {
						parts[i].hall.leave(p)
					}
					if err := lease.Release(); err != nil && !errors.Is(err, interlock.ErrLost) {
						t.Error(err)
					}
					free()
				}
			})
		}
	}
	wg.Wait()
	close(stop)
	time.Sleep(5 * ttl)
	for _, m := range all {
		m.faults().Clear()
		m.faults().Heal()
	}
	time.Sleep(10 * ttl)
	nothingLeft(t, all...)
	grants := 0
	for _, h := range halls {
		grants += h.grants
	}
	if grants < processes*workers {
		t.Errorf("%d grants", grants)
	}
}
