package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Everything at once: all kinds of locks of several backends, alone and by All in random orders, cancelled waits, tries,
// work that is longer than its lease may last, downgrades, and calls that fail, hang, come late or are cut off.
// Capacities are never exceeded, and afterwards everything goes on.
func TestChaos(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		simulatedAs(t, fmt.Sprint(seed), func(t *testing.T) { everything(t, uint64(seed)) })
	}
}

func everything(t *testing.T, seed uint64) {
	const backends, processes, workers, rounds, ttl = 3, 3, 7, 10, 3 * time.Second
	const whole = int64(1) << 30
	var worlds [backends]*memlock.World
	var halls [backends]map[string]*chaos.Hall
	for i := range backends {
		worlds[i], halls[i] = memlock.NewWorld(), map[string]*chaos.Hall{}
		for name, capacity := range map[string]int64{"mutex": 1, "rw": whole, "permits": 5, "strict": 1, "election": 1, "hold": 1} {
			halls[i][name] = &chaos.Hall{Capacity: capacity}
		}
	}
	lock := func(r *rand.Rand, c *interlock.Client) (l *interlock.Lock, units int64) {
		sides := c.RWMutex("rw", [][]interlock.Option{nil, {interlock.StrictOrder()}, {interlock.Sticky()}, {interlock.ReportDeath()}}[r.IntN(4)]...)
		switch r.IntN(9) {
		case 0, 1:
			return c.Mutex("mutex"), 1
		case 2:
			return c.Mutex("mutex", interlock.Sticky()), 1
		case 3:
			return sides.Reader(), 1
		case 4:
			return sides.Writer(), whole
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
	for p := range processes {
		for i := range backends {
			members = append(members, join(t, worlds[i], interlock.TTL(ttl)))
		}
		clients := members[p*backends:]
		for j := range workers {
			r := rand.New(rand.NewPCG(seed, uint64(p*workers+j)))
			wg.Go(func() {
				for range rounds {
					var locks []*interlock.Lock
					var inside []*chaos.Hall
					var units []int64
					for range 1 + r.IntN(3)*r.IntN(2) {
						i := r.IntN(backends)
						l, n := lock(r, clients[i].Client)
						if h := halls[i][l.Name()]; !slices.Contains(inside, h) {
							locks, inside, units = append(locks, l), append(inside, h), append(units, n)
						}
					}
					l := locks[0]
					if len(locks) > 1 {
						l = interlock.All(locks...)
					}
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
						for _, wrong := range []error{interlock.ErrMismatch, interlock.ErrInvalid, interlock.ErrLost, interlock.ErrDeadlock} {
							failIf(t, errors.Is(err, wrong), "%v", err)
						}
						continue
					}
					for i, p := range lease.Parts() {
						errtest.Is(t, inside[i].Enter(p, units[i]), nil)
						if units[i] == whole && r.IntN(2) == 0 {
							inside[i].Leave(p)
							_ = p.Downgrade(ctx)
							errtest.Is(t, inside[i].Enter(p, 1), nil)
						}
					}
					work := time.Duration(r.IntN(100)) * time.Millisecond
					if r.IntN(20) == 0 {
						work = time.Duration(r.IntN(8000)) * time.Millisecond
					}
					held, free := lease.Bind(ctx)
					select {
					case <-held.Done():
						failIf(t, lease.Err() == nil, "the context has ended, and the lease has not")
					case <-time.After(work):
					}
					for i, p := range lease.Parts() {
						inside[i].Leave(p)
					}
					err = lease.Release()
					failIf(t, err != nil && !errors.Is(err, interlock.ErrLost) && !strings.Contains(l.Name(), "hold"), "%v", err) // that may be given up
					free()
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
		time.Sleep(time.Duration(r.IntN(150)) * time.Millisecond)
		f := members[r.IntN(len(members))].faults()
		at := []func(*memlock.Faults, string, int) memlock.Point{(*memlock.Faults).Before, (*memlock.Faults).After}[r.IntN(2)]
		point := at(f, methods[r.IntN(len(methods))], 1+r.IntN(2))
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
	time.Sleep(10 * ttl)
	nothingLeft(t, members...)
	grants := map[string]int{}
	for i := range backends {
		for name, h := range halls[i] {
			grants[name] += h.Grants()
			l := map[string]*interlock.Lock{
				"rw": members[i].RWMutex(name).Writer(), "permits": members[i].Semaphore(name, 5, interlock.Weight(5)),
				"election": members[i].Election(name).Candidate(""),
			}[name]
			if l == nil {
				l = members[i].Mutex(name)
			}
			ok(t, errtest.Must(l.TryAcquire(ctx))(t).Release())
		}
	}
	for name, n := range grants {
		failIf(t, n < 5, "%s: %d grants", name, n)
	}
}
