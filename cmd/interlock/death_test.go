//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// The job ignores TERM, forks, and leaves its session. Whatever happens to
// interlock alone, the job's last line comes before the next job's first.
func TestJobIsGoneBeforeTheNextOneRuns(t *testing.T) {
	t.Parallel()
	for _, rule := range []struct {
		promise string
		ttl     string
		signal  syscall.Signal
		code    int
	}{
		{"when interlock is killed, long before the TTL has run out", "?ttl=10m", syscall.SIGKILL, -1},
		{"when interlock is stopped past its TTL", "?ttl=8s", syscall.SIGSTOP, exitLost},
	} {
		t.Run(rule.promise, func(t *testing.T) {
			t.Parallel()
			url, notes := testURL(t, rule.ttl), filepath.Join(t.TempDir(), "notes")
			first := start(t, url, "run", "a", "--", "job", "hard", notes, "first")
			first.writes(notes, "first")
			next := start(t, url, "run", "a", "--", "job", "note", notes, "next")
			waits(t, url, "a")
			began := time.Now()
			errtest.None(t, first.Process.Signal(rule.signal))
			next.ends(0, busy.Bound(time.Minute))
			t.Logf("the next job ended %v after the signal", time.Since(began))
			_ = first.Process.Signal(syscall.SIGCONT)
			first.ends(rule.code, busy.Bound(time.Minute))
			lastIs(t, notes, "next")
		})
	}
}

// The time of --at-least goes on after the job, and after interlock.
func TestAtLeastKeepsOthersOutAfterAShortJob(t *testing.T) {
	t.Parallel()
	url := testURL(t, "")
	errtest.None(t, cli(t, url, "run", "--at-least", "1h", "nightly", "--", "true").Run())
	err := cli(t, url, "run", "-n", "nightly", "--", "true").Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitBusy {
		t.Errorf("a second run exited with %v, not with %d", err, exitBusy)
	}
	errtest.None(t, cli(t, url, "run", "--at-least", "10ms", "hourly", "--", "true").Run())
	if err := cli(t, url, "run", "hourly", "--", "true").Run(); err != nil {
		t.Errorf("after its time the lock is not free: %v", err)
	}
}

// Promise: a lock that was gone when the job ended is lost, whatever its status was: it may
// not have been alone.
func TestALockThatIsGoneWhenTheJobEndsIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	p.DropPushes(true) // nobody is told
	r := start(t, "redis://"+p.Addr+"?"+longTTL, "run", "a", "--", "interlock", "--url", s.URL(), "evict", "--force", "a")
	r.ends(exitLost, soon)
	if text := r.stderr(); !strings.Contains(text, "as the job ended (its status was 0)") {
		t.Errorf("it says %q", text)
	}
}

// Promise: interlock ends no job because nobody reads any more what interlock says.
func TestAReaderThatHasGoneEndsNoJob(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?"+longTTL)
	c := &started{Cmd: cli(t, url, "run", "--on-revoke", "USR1", "a", "-c",
		`trap 'touch asked; exit 3' USR1; touch held; while :; do sleep 0.01; done`), t: t}
	r, w, err := os.Pipe()
	errtest.None(t, err)
	c.Stderr = w
	c.begin()
	_, _ = r.Close(), w.Close()
	c.has("held")
	if err := cli(t, url, "revoke", "a").Run(); err != nil { // interlock says so, then tells the job
		t.Fatal(err)
	}
	c.has("asked")
	c.ends(3, soon)
}
