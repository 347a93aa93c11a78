//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// onSQLiteAndRedis runs a test on a backend that is a file, and on one that is a server.
func onSQLiteAndRedis(t *testing.T, options string, f func(t *testing.T, url string)) {
	for name, start := range map[string]func(*testing.T) string{
		"SQLite": func(t *testing.T) string { return testURL(t, options) },
		"Redis":  func(t *testing.T) string { return redistest.Start(t).URL() + options },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, start(t))
		})
	}
}

// overruns reads how many overruns of a lock others see.
func overruns(t *testing.T, url, name string) int {
	t.Helper()
	out, err := cli(t, url, "show", "--json", name).Output()
	var q interlock.Queue
	if err == nil {
		err = json.Unmarshal(out, &q)
	}
	if err != nil {
		t.Fatalf("show %s: %v: %s", name, err, out)
	}
	return len(q.Overruns)
}

// status waits until a line of --status-fd matches.
func (s *started) status(line string) {
	s.t.Helper()
	pattern := regexp.MustCompile("(?m)^" + line + "$")
	s.until("there is a status "+line, func() bool {
		b, _ := os.ReadFile(filepath.Join(s.Dir, "status"))
		return pattern.Match(b)
	})
}

// runsOn reports whether there is a process, be it stopped, that has not ended.
func runsOn(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// ofFile is the pid that a job has written.
func (s *started) ofFile(name string) (pid int) {
	s.t.Helper()
	s.until("the job has written its pid", func() bool {
		b, _ := os.ReadFile(filepath.Join(s.Dir, name))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid != 0
	})
	return pid
}

// Promise: a job that goes on after it was evicted, whatever keeps it from ending, is said to overrun, by its interlock
// and to others; it is gone before the next one runs; and then nobody sees an overrun any more.
func TestAJobThatCannotEndIsSaidToOverrun(t *testing.T) {
	t.Parallel()
	stopGuards := func(r *started) {
		g := r.guarded()
		for _, pid := range []int{g.guard, g.warden} {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
		}
	}
	for name, c := range map[string]struct {
		job    []string
		before func(r *started)
	}{
		"its guard and warden are stopped": {[]string{"sh", "-c", `trap "" TERM; echo $$ >pid; while :; do sleep 0.1; done`}, stopGuards},
		"a child of it is stopped":         {[]string{"sh", "-c", `trap "" TERM; sh -c 'echo $$ >pid; kill -STOP $$'; wait`}, nil},
		"a child of it is traced":          {[]string{"job", "traced", "pid"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSQLiteAndRedis(t, "?ttl=12s", func(t *testing.T, url string) {
				r := start(t, url, append([]string{"run", "--status-fd", "3", "a", "--"}, c.job...)...)
				pid := r.ofFile("pid")
				if c.before != nil {
					c.before(r)
				}
				seen := filepath.Join(t.TempDir(), "seen")
				next := start(t, url, "run", "a", "--", "sh", "-c", `test -e /proc/`+strconv.Itoa(pid)+` && cat /proc/`+strconv.Itoa(pid)+`/stat >`+seen+`; true`)
				waits(t, url, "a")
				errtest.None(t, cli(t, url, "evict", "a").Run())
				r.until("others see the overrun", func() bool { return overruns(t, url, "a") == 1 })
				r.status("overrun [0-9]+")
				if !runsOn(pid) {
					t.Error("the job has ended, though nothing ended it")
				}
				r.ends(exitLost, soon)
				r.status("lost")
				if runsOn(pid) {
					t.Error("interlock has ended before the job")
				}
				next.ends(0, soon)
				if b, err := os.ReadFile(seen); err == nil {
					t.Errorf("the next job ran beside the first: %s", b)
				}
				busy.Until(t, "nobody sees an overrun", func() bool { return overruns(t, url, "a") == 0 })
			})
		})
	}
}

// Promise: what others see of the overrun of a client that is killed goes away by itself, within a TTL, and its job is
// ended.
func TestTheOverrunOfAKilledClientGoesAway(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second
	onSQLiteAndRedis(t, "?ttl="+ttl.String(), func(t *testing.T, url string) {
		r := start(t, url, "run", "a", "--", "sh", "-c", `trap "" TERM; echo $$ >pid; while :; do sleep 0.1; done`)
		pid := r.ofFile("pid")
		errtest.None(t, cli(t, url, "evict", "a").Run())
		r.until("others see the overrun", func() bool { return overruns(t, url, "a") == 1 })
		if err := r.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		killed := time.Now()
		busy.Until(t, "the job is ended", func() bool { return !runsOn(pid) })
		busy.Until(t, "nobody sees an overrun", func() bool { return overruns(t, url, "a") == 0 })
		// The last renewal was before the kill; a look takes its time.
		if d := time.Since(killed); d > ttl+soon/3 {
			t.Errorf("it was seen for %v after the kill, the TTL is %v", d, ttl)
		}
		start(t, url, "run", "-w", "0", "a", "--", "true").ends(0, soon)
	})
}
