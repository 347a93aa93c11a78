package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a lock that was lost by its holder's clock is free within two TTLs of the loss of answers,
// also while all requests still arrive at the server, so that nothing there tells of the loss.
func TestALostLockIsFreeThoughRequestsStillArrive(t *testing.T) {
	t.Parallel()
	const ttl = 2 * usualTick
	s := zktest.Start(t, zktest.Tick(usualTick))
	via := zktest.NewProxy(t, s.Addr)
	w := hold(t, via.Addr, ttl, ttl)
	next := errtest.Must(interlock.Open(t.Context(), fmt.Sprintf("zk://%s/a?ttl=%v", s.Addr, ttl)))(t)
	defer next.Close()
	began := time.Now()
	via.Late()
	defer via.Resume()
	got := make(chan time.Duration, 1)
	go func() {
		l, err := next.Mutex(w.lease.Name()).Acquire(limited(t))
		took := time.Since(began)
		if err != nil {
			t.Errorf("the next one: %v", err)
		} else {
			_ = l.Release()
		}
		got <- took
	}()
	<-w.lease.Done()
	lost := time.Since(began)
	if err := w.lease.Err(); !errors.Is(err, interlock.ErrLost) {
		t.Errorf("the holder is told %v", err)
	}
	took := <-got
	t.Logf("lost after %v, the next one holds after %v", lost, took)
	if took < lost {
		t.Errorf("the next one held after %v, and the lease was lost after %v", took, lost)
	}
	if took > 2*ttl+usualTick { // sessions end at whole ticks
		t.Errorf("the next one held after %v, with a TTL of %v", took, ttl)
	}
}

// Promise: an outage of two fifths of the TTL loses no lease (docs/faq.md), whether nothing
// passes or requests do, and although the connections end with it.
func TestAnOutageOfTwoFifthsOfTheTTLLosesNothing(t *testing.T) {
	t.Parallel()
	const ttl, clients = 2 * usualTick, 6
	s := zktest.Start(t, zktest.Tick(usualTick))
	for name, begin := range map[string]func(*zktest.Proxy){
		"dark":    func(p *zktest.Proxy) { p.Hang() },
		"mute":    func(p *zktest.Proxy) { p.Late() },
		"refused": func(p *zktest.Proxy) { p.Refuse(true); p.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range repeated(t, "ZKLOCK_OUTAGES", 2) {
				calmly(t, ttl/40, func() (late time.Duration, failed error) {
					via := zktest.NewProxy(t, s.Addr)
					var all []*holder
					for range clients {
						all = append(all, hold(t, via.Addr, ttl/4, ttl)) // the server grants what it can
						time.Sleep(ttl / 29)                             // so that their heartbeats fall at different times
					}
					time.Sleep(ttl)
					began := time.Now()
					begin(via)
					time.Sleep(time.Until(began.Add(ttl * 2 / 5)))
					via.Cut()
					via.Refuse(false)
					via.Resume()
					outage := time.Since(began)
					time.Sleep(ttl)
					lost := 0
					for _, w := range all {
						if w.lease.Err() != nil {
							lost++
							failed = w.lease.Err()
						}
						w.stop()
						late = max(late, w.stalled)
						t.Log(w.least)
					}
					late = max(late, outage-ttl*2/5)
					if lost > 0 {
						failed = fmt.Errorf("%d of %d leases were lost: %w", lost, clients, failed)
					}
					return late, failed
				})
			}
		})
	}
}

// Promise: programs that run go on when the servers have lost all data: their leases are lost, and
// told, they open new sessions, get locks again, and do not get smaller tokens than before. So do calls
// that need no session.
func TestRunningProgramsGoOnWhenTheServersHaveLostTheirData(t *testing.T) {
	t.Parallel()
	const ttl = 2 * usualTick
	s := zktest.Start(t, zktest.Tick(usualTick))
	raw := connected(t, s.Addr)
	for i := range 200 { // transactions that the new ensemble does not have
		_, err := raw.Create(fmt.Sprint("/some", i), nil, 0, zk.WorldACL(zk.PermAll))
		noError(t, err)
	}
	aside := opened(t, s.Addr)
	_, err := aside.Load(limited(t), "limit") // it has seen them
	noError(t, err)
	w := hold(t, s.Addr, ttl, ttl)
	m := w.client.Mutex(w.lease.Name())
	waits := make(chan error, 1)
	go func() {
		l, err := m.Acquire(limited(t))
		if err == nil {
			err = l.Release()
		}
		waits <- err
	}()
	s.RestartEmpty()
	restarted := time.Now()
	<-w.lease.Done()
	if err := w.lease.Err(); !errors.Is(err, interlock.ErrLost) {
		t.Errorf("the holder is told %v", err)
	}
	if err := <-waits; err != nil {
		t.Errorf("the waiter: %v", err)
	}
	next := errtest.Must(m.Acquire(limited(t)))(t)
	t.Logf("after %v; token %d after %d", time.Since(restarted), next.Token(), w.lease.Token())
	if next.Token() <= w.lease.Token() {
		t.Errorf("token %d after %d", next.Token(), w.lease.Token())
	}
	noError(t, next.Release())
	tokens := func() (found driver.Finding) {
		for _, f := range opened(t, s.Addr).Check(limited(t)) {
			if f.Check == "tokens" {
				found = f
			}
		}
		return found
	}
	if f := tokens(); f.Status != driver.Warn || !strings.Contains(f.Remedy, "raise-token --all") {
		t.Errorf("doctor does not say that the ensemble fell back: %+v", f)
	}
	noError(t, opened(t, s.Addr).Raise(limited(t), "", 1<<40))
	if f := tokens(); f.Status != driver.OK {
		t.Errorf("tokens were raised, and doctor says %+v", f)
	}
	busy.Until(t, "calls without a session go on", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := aside.Load(ctx, "limit")
		return err == nil
	})
}
