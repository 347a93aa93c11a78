package drivertest

import (
	"reflect"
	"testing"
)

// A rule checks one promise of package driver.
type rule struct {
	name  string
	says  []string // the sentences of package driver
	check func(*trial)

	hook string // the field of World without which it cannot be checked; "": none

	exclusive bool // checked once for each shape of mutual exclusion
	across    bool // checked once more with each client in a process of its own
	processes bool // makes clients in other processes itself
	alone     bool // counts things of the whole process: not beside other rules
}

// A variant is a way in which a rule is checked.
type variant struct {
	name      string
	shape     shape
	processes bool // each client is a process
}

func (r rule) variants(url, shape string) []variant {
	var all []variant
	for _, s := range shapes {
		if shape != "" && s.name != shape {
			continue
		}
		all = append(all, variant{name: s.name, shape: s})
		if !r.exclusive || testing.Short() {
			break
		}
	}
	if r.across && url != "" {
		all = append(all, variant{"in processes", all[0].shape, true})
	}
	return all
}

// run checks the rule in a new world, and once more in another one, with twice the TTL, if this
// machine paused for so long that a session died which had to live.
func (r rule) run(tb testing.TB, b Backend, v variant) {
	tb.Helper()
	for range 5 {
		if r.attempt(tb, b, v) {
			return
		}
		tb.Logf("this machine paused for longer than the TTL of %v; again, with twice that", b.TTL)
		b.TTL *= 2
	}
	tb.Fatalf("this machine pauses for longer than the TTL of %v all the time", b.TTL)
}

func (r rule) attempt(tb testing.TB, b Backend, v variant) (inTime bool) {
	tb.Helper()
	t := &trial{TB: tb, Backend: b, rule: r, shape: v.shape, world: b.World(tb)}
	t.allow()
	if v.processes {
		t.world = t.world.inProcesses()
	}
	defer func() {
		switch p := recover(); p {
		case errPaused:
			inTime = false
		case nil:
		default:
			panic(p)
		}
	}()
	defer func() {
		t.cancel()
		t.watch() // drivers are closed in time, too
		defer t.over.Stop()
		for _, c := range t.closers {
			if err := c(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		t.calls.Wait()
	}()
	if !t.world.has(r.hook) {
		t.Fatalf("World.%s is not set; list %s as unsupported, with the reason", r.hook, r.name)
	}
	r.check(t)
	return true
}

// has reports whether the world has what a rule needs.
func (w World) has(hook string) bool {
	return hook == "" || !reflect.ValueOf(w).FieldByName(hook).IsZero()
}
