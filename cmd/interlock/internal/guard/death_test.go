//go:build linux

package guard_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// gone fails the test unless the job's last line was written before the
// instant, and none of its processes lives.
func gone(t *testing.T, r *run, n notebook, by driver.Instant) {
	t.Helper()
	left := r.processes()
	delete(left, r.Process.Pid)
	if len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	if _, last := n.read(t); last >= by {
		t.Errorf("the job wrote %v after it had to be gone", last.Sub(by))
	}
}

func TestJobIsGoneBeforeTheLivenessOfAKilledProgramIs(t *testing.T) {
	n, l := newNotebook(t), newLiveness(t)
	r := l.pass(hardToKill(t, n))
	n.writing(t)
	r.Process.Kill()
	free := l.free(t)
	gone(t, r, n, free)
	r.wait()
}

func TestJobIsAskedToEndBeforeItIsKilled(t *testing.T) {
	t.Parallel()
	l, ready := newLease(t), filepath.Join(t.TempDir(), "ready")
	r := command(t, "sh", "-c", `trap 'echo asked; exit 5' TERM; echo >"$0"; while :; do sleep 0.01; done`, ready)
	r.under(l, longTTL).start()
	busy.Until(t, "the job runs", exists(ready))
	l.ends(t, 3*time.Second)
	if code := r.wait(); code != 79 {
		t.Errorf("exit code %d, want 79", code)
	}
	if got := r.out.String(); got != "asked\n" {
		t.Errorf("output %q, want %q", got, "asked\n")
	}
}

func TestStoppedJobIsKilledAtTheDeadline(t *testing.T) {
	t.Parallel()
	l := newLease(t)
	r := command(t, "sh", "-c", `kill -STOP $$; echo continued`).under(l, 2*time.Second).start()
	busy.Until(t, "the job is stopped", func() bool {
		for pid, line := range r.processes() {
			if strings.HasPrefix(line, "sh -c") && state(pid) == "T" {
				return true
			}
		}
		return false
	})
	l.ends(t, time.Second)
	if code := r.wait(); code != 79 {
		t.Errorf("exit code %d, want 79", code)
	}
	if got := r.out.String(); got != "" {
		t.Errorf("output %q, want none", got)
	}
}

// Promise: a command that ran is not taken for one that was not started, however soon its
// guard is killed.
func TestACommandThatKillsItsGuardAtOnceHasRun(t *testing.T) {
	for range 20 {
		ran := filepath.Join(t.TempDir(), "ran")
		r := command(t, "sh", "-c", `: >"$0"; kill -KILL $PPID; sleep 1000`, ran).start()
		if code := r.wait(); code != 79 || r.errors.String() != "cause: guard died\n" {
			t.Fatalf("exit code %d, stderr %q: want 79, since the guard died", code, &r.errors)
		}
		if _, err := os.Stat(ran); err != nil {
			t.Fatal("the command did not run")
		}
	}
}

func TestJobOfAKilledGuardIsKilledByTheProgram(t *testing.T) {
	n, l := newNotebook(t), newLiveness(t)
	r := l.pass(hardToKill(t, n))
	n.writing(t)
	unix.Kill(r.guard(), unix.SIGKILL)
	if code := r.wait(); code != 79 {
		t.Errorf("exit code %d, want 79", code)
	}
	gone(t, r, n, l.free(t))
	if got := r.errors.String(); got != "cause: guard died\n" {
		t.Errorf("reported %q", got)
	}
}

// Promise: program, warden and guard each end the job by the deadline, also if the other two were killed or
// stopped.
func TestOneOfThreeEndsTheJob(t *testing.T) {
	type deed struct {
		to     func(*run) int
		signal unix.Signal
	}
	program, warden, guard := func(r *run) int { return r.Process.Pid }, (*run).warden, (*run).guard
	for name, deeds := range map[string][]deed{
		"not renewed":                               {},
		"program stopped":                           {{program, unix.SIGSTOP}},
		"guard stopped":                             {{guard, unix.SIGSTOP}},
		"program killed, guard killed":              {{program, unix.SIGKILL}, {guard, unix.SIGKILL}},
		"guard killed, program killed":              {{guard, unix.SIGKILL}, {program, unix.SIGKILL}},
		"program stopped, guard killed":             {{program, unix.SIGSTOP}, {guard, unix.SIGKILL}},
		"program stopped, guard stopped":            {{program, unix.SIGSTOP}, {guard, unix.SIGSTOP}},
		"program killed, guard stopped":             {{program, unix.SIGKILL}, {guard, unix.SIGSTOP}},
		"program killed, warden killed":             {{program, unix.SIGKILL}, {warden, unix.SIGKILL}},
		"program stopped, warden killed":            {{program, unix.SIGSTOP}, {warden, unix.SIGKILL}},
		"program stopped, warden stopped":           {{program, unix.SIGSTOP}, {warden, unix.SIGSTOP}},
		"warden killed, guard killed":               {{warden, unix.SIGKILL}, {guard, unix.SIGKILL}},
		"warden stopped, guard killed":              {{warden, unix.SIGSTOP}, {guard, unix.SIGKILL}},
		"warden killed, guard stopped":              {{warden, unix.SIGKILL}, {guard, unix.SIGSTOP}},
		"warden stopped, guard stopped":             {{warden, unix.SIGSTOP}, {guard, unix.SIGSTOP}},
		"program killed, guard killed a bit later":  {{program, unix.SIGKILL}, {nil, 0}, {guard, unix.SIGKILL}},
		"guard killed, program killed a bit later":  {{guard, unix.SIGKILL}, {nil, 0}, {program, unix.SIGKILL}},
		"guard killed, program stopped a bit later": {{guard, unix.SIGKILL}, {nil, 0}, {program, unix.SIGSTOP}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, l := newNotebook(t), newLease(t)
			r := hardToKill(t, n).under(l, longTTL).start()
			n.writing(t)
			var pids []int
			killed := false
			for _, d := range deeds {
				killed = killed || d.signal == unix.SIGKILL && d.to(r) == r.Process.Pid
				if d.to != nil {
					pids = append(pids, d.to(r))
				} else {
					pids = append(pids, 0)
				}
			}
			deadline := l.ends(t, 4*time.Second)
			for i, d := range deeds {
				if d.to == nil {
					time.Sleep(10 * time.Millisecond)
				} else if err := unix.Kill(pids[i], d.signal); err != nil && err != unix.ESRCH {
					t.Fatal(err)
				}
			}
			busy.Until(t, "the job is gone", func() bool {
				left := r.processes()
				delete(left, r.Process.Pid)
				return len(left) == 0
			})
			gone(t, r, n, deadline)
			r.Process.Signal(unix.SIGCONT)
			// A program whose guard dies ends by itself, and may do so before it is killed.
			if got := r.wait(); got != 79 && !(killed && got == 128+9) {
				t.Errorf("exit code %d, want 79, or 137 of a program that was killed: %v", got, killed)
			}
		})
	}
}

// Promise: a guard that is stopped goes on: the job gets the signals of the program.
func TestAStoppedGuardGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		kill bool // the warden
		stop []func(r *run) int
	}{
		"the guard":                  {false, []func(r *run) int{(*run).guard}},
		"the warden":                 {false, []func(r *run) int{(*run).warden}},
		"the warden and its guard":   {false, []func(r *run) int{(*run).warden, (*run).guard}},
		"the guard without a warden": {true, []func(r *run) int{(*run).guard}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ready := filepath.Join(t.TempDir(), "ready")
			r := command(t, "sh", "-c", `trap 'exit 7' TERM; trap ': >"$0.heard"' USR1; : >"$0"; while :; do sleep 0.01; done`, ready).start()
			busy.Until(t, "the job runs", exists(ready))
			r.Process.Signal(unix.SIGUSR1)
			busy.Until(t, "the program passes signals on: it has heard of its guard", exists(ready+".heard"))
			if c.kill {
				unix.Kill(r.warden(), unix.SIGKILL)
			}
			for _, pid := range c.stop {
				errtest.None(t, unix.Kill(pid(r), unix.SIGSTOP))
			}
			r.Process.Signal(unix.SIGTERM)
			if code := r.wait(); code != 7 {
				t.Errorf("exit code %d, want the 7 of the job", code)
			}
		})
	}
}

// Promise: who kills the processes that are called like the program does not kill those
// that end the job.
func TestGuardAndWardenHaveNamesOfTheirOwn(t *testing.T) {
	r := command(t, "sleep", "1000").start()
	busy.Until(t, "the command runs", func() bool {
		return slices.Contains(slices.Collect(maps.Values(r.processes())), "sleep 1000 ")
	})
	for want, pid := range map[string]int{"lock-guard\n": r.guard(), "lock-warden\n": r.warden()} {
		if name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); string(name) != want {
			t.Errorf("a process is called %q, not %q", name, want)
		}
	}
	r.Process.Signal(unix.SIGTERM)
	r.wait()
}

func TestCommandDiesWithGuardWardenAndProgram(t *testing.T) {
	r := command(t, "sleep", "1000").start()
	busy.Until(t, "the command runs", func() bool {
		return len(r.processes()) == 4 && slices.Contains(slices.Collect(maps.Values(r.processes())), "sleep 1000 ")
	})
	g, w := r.guard(), r.warden()
	r.Process.Signal(unix.SIGSTOP)
	unix.Kill(w, unix.SIGKILL)
	unix.Kill(g, unix.SIGKILL)
	r.Process.Kill()
	r.wait()
	busy.Until(t, "the command is gone", func() bool { return len(r.processes()) == 0 })
}

// hop defines a shell function that goes on in a child and ends, again and
// again, without the pause of an exec but every 900 times: shells limit depth.
const hop = `trap '' TERM
file=$1
n=0
hop() {
	: >>"$file"
	n=$((n+1))
	[ $n -lt 900 ] || exec sh "$0" "$file" x
	hop &
}
`

func TestForkingFasterThanItIsKilledDoesNotHelpAJob(t *testing.T) {
	for name, script := range map[string]string{
		"in its group":   "hop",
		"in its session": `[ "$2" ] || exec setsid -f sh "$0" "$1" x; hop`,
		"many":           `[ "$2" ] || exec setsid -f sh "$0" "$1" x; for i in 1 2 3 4 5 6; do hop & done`,
		"new sessions":   `: >>"$1"; exec setsid -f sh "$0" "$1"`,
	} {
		t.Run(name, func(t *testing.T) {
			n, l := newNotebook(t), newLiveness(t)
			file := string(n) + ".sh"
			errtest.None(t, os.WriteFile(file, []byte(hop+script), 0o600))
			r := l.pass(command(t, "sh", file, string(n)))
			busy.Until(t, "the job runs", exists(string(n)))
			r.Process.Kill()
			l.free(t)
			if left := r.processes(); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			r.wait()
		})
	}
}

// Promise: processes of a job that end in masses do not keep its guard from looking at the
// time.
func TestEndsAreCollectedInParts(t *testing.T) {
	t.Parallel()
	const children = 3*guard.PerReap + 1
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), asParent+"="+strconv.Itoa(children))
	if got := strings.TrimSpace(output(t, c)); got != "3" {
		t.Errorf("the ends of %d children are collected with %s breaks, want 3", children, got)
	}
}

// Promise: who takes over from a guard also ends a warden that does nothing, and not before
// the job: if it dies itself in between, the warden is there still.
func TestAWardenThatHangsIsKilledLast(t *testing.T) {
	t.Parallel()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), asHeir+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if got := output(t, c); got != "all are gone\n" {
		t.Errorf("it says %q", got)
	}
}

// inherit ends a job whose guard is gone, and a warden that does not know it.
func inherit() {
	const members = 50
	c := exec.Command("sh", "-c", `for i in $(seq "$0"); do sleep 1000 & done; exec sleep 1000`, strconv.Itoa(members))
	if err := c.Start(); err != nil {
		panic(err)
	}
	for began := time.Now(); len(guard.ChildrenOf(c.Process.Pid)) < members; time.Sleep(time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			panic("the job has not begun")
		}
	}
	if orphans := guard.Exterminate(c.Process.Pid); orphans > 0 {
		fmt.Printf("the warden died before %d of the job\n", orphans)
	}
	if err := unix.Kill(c.Process.Pid, 0); err != unix.ESRCH {
		panic(err)
	}
	fmt.Println("all are gone")
	os.Exit(0)
}

// parent waits until all of its children have ended, and collects them then.
func parent(children int) {
	var all []int
	for range children {
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil)
		if err != nil {
			panic(err)
		}
		all = append(all, pid)
	}
	for _, pid := range all {
		for state(pid) != "Z" {
			time.Sleep(time.Millisecond)
		}
	}
	fmt.Println(guard.ReapAll())
	os.Exit(0)
}

// state is the letter that ps shows for a process.
func state(pid int) string {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(data), ") ")
	s, _, _ := strings.Cut(rest, " ")
	return s
}
