package zklock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/answers"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// usualTick is the tick of a server that is configured as Debian, and ZooKeeper's own
// sample, do it. Sessions of such a server are 4 s long at least.
const usualTick = 2 * time.Second

// Promise: a lease of a healthy holder never has less than 0.4 of its TTL left, from its
// grant on, at every TTL that a server with the usual tick grants.
func TestAHealthyLeaseHasTime(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Tick(usualTick))
	for _, c := range []struct {
		asked, granted time.Duration
		periods        int
	}{
		{100 * time.Millisecond, 2 * usualTick, 5},
		{6 * time.Second, 6 * time.Second, 5},
		{15 * time.Second, 15 * time.Second, 2},
	} {
		t.Run(c.granted.String(), func(t *testing.T) {
			t.Parallel()
			calmly(t, c.granted/20, func() (late time.Duration, failed error) {
				w := hold(t, s.Addr, c.asked, c.granted)
				defer w.stop()
				for end := time.Now().Add(time.Duration(c.periods) * c.granted); time.Now().Before(end); {
					lease := errtest.Must(w.client.Mutex(t.Name() + "/again").Acquire(limited(t)))(t)
					w.has(lease.Remaining())
					_ = lease.Release()
					time.Sleep(c.granted / 14)
				}
				w.stop()
				return w.late, w.had(c.granted * 4 / 10)
			})
		})
	}
}

// Promise: a pause of the server of a fifth of the TTL costs nobody a lease, whenever it
// comes, and not even two of them, one soon after the other: more than a sixth of the TTL
// is left, where a guard would end its job.
func TestAPauseOfTheServerCostsNoLease(t *testing.T) {
	t.Parallel()
	const ttl, clients = 2 * usualTick, 8
	s := zktest.Start(t, zktest.Tick(usualTick))
	for i := range repeated(t, "ZKLOCK_PAUSES", 4) {
		calmly(t, ttl/20, func() (late time.Duration, failed error) {
			var all []*holder
			for range clients {
				all = append(all, hold(t, s.Addr, ttl, ttl))
				time.Sleep(ttl / 29) // so that their heartbeats fall at different times
			}
			time.Sleep(ttl/2 + time.Duration(i%5)*ttl/31)
			longest, end := answers.Measure(t, "zk://"+s.Addr+"/probe?ttl=1m")
			for _, gap := range []time.Duration{time.Duration(3+4*(i%4)) * ttl / 40, ttl} {
				s.Pause()
				time.Sleep(ttl / 5)
				s.Resume()
				time.Sleep(gap)
			}
			end()
			late = longest() - ttl/5 // the server did not run for longer than its pause
			for _, w := range all {
				w.stop()
				late = max(late, w.stalled)
			}
			for _, w := range all { // in each of the two pauses what is late takes its time
				if err := w.had(ttl/6 - 2*max(0, late)); failed == nil {
					failed = err
				}
			}
			return late, failed
		})
	}
}

// calmly repeats what tells nothing because the machine itself was late, by more than the
// bound, for what is a matter of milliseconds.
func calmly(t *testing.T, bound time.Duration, try func() (late time.Duration, failed error)) {
	t.Helper()
	for end := time.Now().Add(busy.Bound(10 * time.Minute)); ; {
		late, err := try()
		if err == nil {
			return
		}
		if late <= bound {
			t.Fatalf("%v, and the machine was late by %v at most", err, late)
		}
		t.Logf("again: the machine was late by %v (%v)", late, err)
		if time.Now().After(end) {
			t.Skip("the machine is too slow to tell anything")
		}
	}
}

// holder is a client with a lease, and a sampler of what that has left.
type holder struct {
	client  *interlock.Client
	lease   *interlock.Lease
	sampler sync.WaitGroup
	stop    func()

	mu      sync.Mutex
	least   time.Duration // that a lease had left
	stalled time.Duration // by which a sample came too late at most: this process did not run
	late    time.Duration // that, or the time that a renewal took
	doubts  []string      // why renewals failed, and when
}

func hold(t *testing.T, addr string, asked, granted time.Duration) *holder {
	t.Helper()
	h := &holder{least: granted}
	var err error
	h.client, err = interlock.Open(t.Context(), fmt.Sprintf("zk://%s/a?ttl=%v", addr, asked), interlock.Observe(h.event))
	noError(t, err)
	if ttl := h.client.TTL(); ttl != granted {
		t.Fatalf("the TTL is %v, not %v", ttl, granted)
	}
	h.lease, err = h.client.Mutex(fmt.Sprintf("%s/%p", t.Name(), h)).Acquire(limited(t))
	noError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	h.stop = sync.OnceFunc(func() {
		cancel()
		h.sampler.Wait()
		_ = h.client.Close()
	})
	t.Cleanup(h.stop)
	h.sampler.Go(func() {
		const every = 5 * time.Millisecond
		for ctx.Err() == nil {
			began := time.Now()
			time.Sleep(every)
			h.has(h.lease.Remaining())
			h.slow(time.Since(began)-every, true)
		}
	})
	return h
}

func (h *holder) event(_ context.Context, e interlock.Event) {
	switch e.Kind {
	case interlock.EventRenewed:
		h.slow(e.Took, false)
	case interlock.EventInDoubt:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.doubts = append(h.doubts, fmt.Sprintf("%s %v", time.Now().Format("05.000"), e.Err))
	}
}

func (h *holder) slow(late time.Duration, stalled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late = max(h.late, late)
	if stalled {
		h.stalled = max(h.stalled, late)
	}
}

func (h *holder) has(left time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.least = min(h.least, left)
}

// had reports a lease that had less left at some time.
func (h *holder) had(least time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.least < least {
		return fmt.Errorf("a healthy lease had %v left at some time, %v is the least (doubts: %q)", h.least, least, h.doubts)
	}
	return nil
}

// Promise: an answer of Renew proves no later time than a quarter of the TTL before it came:
// the leader may not have heard of the session since.
func TestARenewalProvesNothingOfItself(t *testing.T) {
	t.Parallel()
	s := lent(t)
	a := session(t, opened(t, s.Addr), 20*time.Second)
	k := holds(t, a, aMutex("q"))
	beat(t, a, k)
	time.Sleep(a.TTL/4 + 10*time.Millisecond) // that it was opened is a proof, too
	answers := errtest.Must(a.Renew(limited(t), []driver.Ticket{k}))(t)
	if late := driver.Now().Add(-a.TTL / 4); len(answers) != 1 || answers[0].Proof > late {
		t.Errorf("%+v: %v too late", answers, answers[0].Proof.Sub(late))
	}
}
