//go:build linux

package guard_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/internal/busy"
)

// Promise: the guard of a program that was killed gives back when nobody of the job is left,
// once, also if guard or warden were stopped before, or the warden was killed.
func TestGuardOfAKilledProgramGivesBackWhenTheJobIsGone(t *testing.T) {
	for name, before := range map[string]func(*run){
		"":                func(*run) {},
		"guard stopped":   func(r *run) { unix.Kill(r.guard(), unix.SIGSTOP) },
		"warden stopped":  func(r *run) { unix.Kill(r.warden(), unix.SIGSTOP) },
		"warden killed":   func(r *run) { unix.Kill(r.warden(), unix.SIGKILL) },
		"program stopped": func(r *run) { r.Process.Signal(unix.SIGSTOP) },
	} {
		t.Run(name, func(t *testing.T) {
			n, given := newNotebook(t), newNotebook(t)
			r := hardToKill(t, n).with(giveBack, string(given)).start()
			n.writing(t)
			before(r)
			r.Process.Kill()
			r.wait()
			busy.Until(t, "the guard has ended", func() bool { return len(r.processes()) == 0 })
			guards, at := given.read(t)
			if len(guards) != 1 {
				t.Fatalf("%d processes gave back, not the guard alone", len(guards))
			}
			if _, last := n.read(t); last >= at {
				t.Errorf("the job wrote %v after the guard gave back", last.Sub(at))
			}
		})
	}
}

// Promise: the guard does not give back while the program lives, or may: it does that itself.
// Nor does anybody else if the guard was killed.
func TestNothingIsGivenBackWhileTheProgramMayLive(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *run, lease){
		"the job ends":   func(t *testing.T, r *run, _ lease) { unix.Kill(r.named("sleep"), unix.SIGKILL) },
		"the lease ends": func(t *testing.T, _ *run, l lease) { l.ends(t, 2*time.Second) },
		"the lease of a stopped program ends": func(t *testing.T, r *run, l lease) {
			l.ends(t, 3*time.Second)
			r.Process.Signal(unix.SIGSTOP)
			busy.Until(t, "the job is gone", func() bool { return len(r.processes()) <= 1 })
			r.Process.Signal(unix.SIGCONT)
		},
		"the guard is killed, then the program": func(t *testing.T, r *run, _ lease) {
			unix.Kill(r.guard(), unix.SIGKILL)
			r.Process.Kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			given, l := newNotebook(t), newLease(t)
			r := command(t, "sleep", "1000").with(giveBack, string(given)).under(l, longTTL).start()
			busy.Until(t, "the job runs", func() bool { return slices.Contains(slices.Collect(maps.Values(r.processes())), "sleep 1000 ") })
			end(t, r, l)
			r.wait()
			busy.Until(t, "the guard has ended", func() bool { return len(r.processes()) == 0 })
			if guards, _ := given.read(t); len(guards) != 0 {
				t.Error("it was given back")
			}
		})
	}
}
