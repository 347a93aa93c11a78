package exchangetest_test

import (
	"testing"
	"testing/synctest"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/bubble"
)

// line is two clients of a queue of keys. What it does must succeed.
type line struct {
	t    *testing.T
	a, b peer
}

func (l *line) join(s peer, kind driver.Kind, units, capacity int64) driver.Ticket {
	l.t.Helper()
	k, err := s.Join(l.t.Context(), driver.Request{ID: exchange.NewID(), Queue: "q", Kind: kind, Units: units, Capacity: capacity, ReportDeath: true})
	if err != nil {
		l.t.Fatal(err)
	}
	return k
}

func (l *line) permits(s peer, units int64) driver.Ticket {
	l.t.Helper()
	return l.join(s, driver.Semaphore, units, 3)
}

func (l *line) leave(s peer, k driver.Ticket, clean bool) {
	l.t.Helper()
	if err := s.Leave(l.t.Context(), k, clean); err != nil {
		l.t.Fatal(err)
	}
}

// Each returns what is wrong if a Store over package keys has the fault.
var ofKeys = map[exchangetest.Fault]func(l *line) string{
	exchangetest.KeysAgree: func(l *line) string {
		l.permits(l.a, 1)
		_, err := l.b.Join(l.t.Context(), request())
		if err == nil {
			return "a mutex waits behind permits"
		}
		return ""
	},
	exchangetest.KeysKnown: func(l *line) string {
		l.permits(l.a, 1)
		l.permits(l.a, 2)
		if l.permits(l.b, 1).Held {
			return "4 of 3 permits are held"
		}
		return ""
	},
	exchangetest.KeysObstacles: func(l *line) string {
		one, _ := l.permits(l.a, 1), l.permits(l.a, 2)
		w := l.permits(l.b, 1)
		granted := awaits(l.t, l.b, w)
		synctest.Wait()
		l.leave(l.a, one, true)
		if synctest.Wait(); !granted.Load() {
			return "a permit is free, and the waiter is not woken"
		}
		return ""
	},
	exchangetest.KeysMark: func(l *line) string {
		l.leave(l.a, l.permits(l.a, 3), false)
		l.leave(l.b, l.permits(l.b, 1), true)
		if !l.permits(l.b, 3).Inherited {
			return "nobody is told that the last one who had all has died"
		}
		return ""
	},
	exchangetest.KeysHeld: func(l *line) string {
		k := l.permits(l.a, 3)
		if err := l.b.d.Resize(l.t.Context(), "q", 2); err != nil {
			l.t.Fatal(err)
		}
		all, err := l.b.d.Store().Look(l.t.Context(), exchange.Session{}, []exchange.Ref{{Queue: "q", ID: k.ID}})
		if err != nil || all[0].State != exchange.Held { // so inspection and an eviction would take it
			return "who held is taken for a waiter, by a smaller number"
		}
		return ""
	},
}

// Promise: a Store over package keys that follows its rule comes through each scenario, and one that does not is
// noticed.
func TestFaultsOfKeys(t *testing.T) {
	for fault, scenario := range ofKeys {
		t.Run(string(fault), func(t *testing.T) {
			run := func(faults ...exchangetest.Fault) (wrong string) {
				bubble.Run(t, func(t *testing.T) {
					k := exchangetest.NewKeyed(faults...)
					wrong = scenario(&line{t, begin(t, k.Store()), begin(t, k.Store())})
				})
				return wrong
			}
			if wrong := run(); wrong != "" {
				t.Error(wrong)
			}
			if run(fault) == "" {
				t.Error("the fault is not noticed")
			}
		})
	}
}
