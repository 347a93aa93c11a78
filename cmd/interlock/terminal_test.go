//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// screen is a command on a terminal.
type screen struct {
	*exec.Cmd
	over chan struct{} // closed when it has ended
	tty  *os.File
	text written
}

// onScreen starts a command on a terminal of so many columns and 24 lines.
func onScreen(t *testing.T, columns uint16, url string, args ...string) *screen {
	t.Helper()
	return onScreenOf(t, columns, 24, cli(t, url, args...))
}

func onScreenOf(t *testing.T, columns, lines uint16, c *exec.Cmd) *screen {
	t.Helper()
	s := &screen{Cmd: c, over: make(chan struct{})}
	s.Stderr = nil
	s.Env = append(s.Env, "TERM=xterm", "NO_COLOR=", "FORCE_COLOR=", "LC_ALL=C.UTF-8")
	tty := errtest.Must(pty.StartWithSize(s.Cmd, &pty.Winsize{Rows: lines, Cols: columns}))(t)
	s.tty = tty
	go func() {
		defer close(s.over)
		_, _ = io.Copy(&s.text, tty) // ends with an error when the terminal is closed
		_ = s.Wait()
	}()
	t.Cleanup(func() {
		_ = s.Process.Kill()
		<-s.over
		tty.Close()
	})
	return s
}

// shown is what was written so far.
func (s *screen) shown() string {
	return strings.ReplaceAll(s.text.String(), "\r", "")
}

// ends returns what the command has written when it has ended.
func (s *screen) ends(t *testing.T) string {
	t.Helper()
	select {
	case <-s.over:
	case <-time.After(busy.Bound(time.Minute)):
		t.Fatalf("%v has not ended in a minute: %s", s.Args, s.shown())
	}
	return s.shown()
}

// keeps holds a lock until the test has ended, or the function is called.
func keeps(t *testing.T, url string, args ...string) (release func()) {
	t.Helper()
	c := holds(t, url, args...)
	return func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		<-c.over
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// Promise: on a terminal no line of a table is wider than that; -o wide, and a pipe, have it
// all.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	owner := "a-machine-with-a-long-name.in-a-domain-with-a-long-name.example:1234567"
	note := "reindexes all that was changed since it was done the last time"
	url := testURL(t, "?ttl=30s&owner="+owner)
	for i := range 3 {
		keeps(t, url, "--permits", "5", "--note", note, fmt.Sprint("jobs/reindex-", i/2))
	}
	for _, columns := range []uint16{72, 80, 120} {
		for _, args := range [][]string{{"ls"}, {"show", "jobs/reindex-0"}} {
			shown := onScreen(t, columns, url, args...).ends(t)
			if !strings.Contains(shown, "jobs/reindex-0") || !strings.Contains(shown, "of 5") || !strings.Contains(shown, "a-mach") {
				t.Errorf("%v in %d columns says too little:\n%s", args, columns, shown)
			}
			for line := range strings.Lines(shown) {
				if n := text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")); n > int(columns) {
					t.Errorf("%v: a line of %d in %d columns:\n%s", args, n, columns, shown)
				}
			}
			wide := escapes.ReplaceAllString(onScreen(t, columns, url, append(args, "-o", "wide")...).ends(t), "")
			piped := errtest.Must(cli(t, url, args...).Output())(t)
			for _, all := range []string{wide, string(piped)} {
				if !strings.Contains(all, owner) || !strings.Contains(all, note) || !strings.Contains(all, "TOKEN") {
					t.Errorf("%v without a width leaves something out:\n%s", args, all)
				}
			}
		}
	}

	// What show shows of an ID in little room is enough for evict.
	shown := escapes.ReplaceAllString(onScreen(t, 80, url, "show", "jobs/reindex-1").ends(t), "")
	id := regexp.MustCompile(`(?m) ([0-9a-f]{8,}) *$`).FindStringSubmatch(shown)
	if id == nil {
		t.Fatalf("no ID:\n%s", shown)
	}
	if err := cli(t, url, "revoke", "jobs/reindex-1", id[1]).Run(); err != nil {
		t.Errorf("revoke %s: %v", id[1], err)
	}
}

// Promise: tables have colours on a terminal, unless NO_COLOR is set or it has none.
func TestColoursAreForTerminals(t *testing.T) {
	t.Parallel()
	url := testURL(t, "")
	keeps(t, url, "a")
	for _, c := range []struct {
		env     string
		colours bool
	}{{"TERM=xterm", true}, {"NO_COLOR=1", false}, {"NO_COLOR=0", false}, {"TERM=dumb", false}} {
		s := &screen{Cmd: cli(t, url, "show", "a"), over: make(chan struct{})}
		s.Stderr = nil
		s.Env = append(s.Env, "TERM=xterm", "NO_COLOR=", "FORCE_COLOR=", c.env)
		tty := errtest.Must(pty.Start(s.Cmd))(t)
		_, _ = io.Copy(&s.text, tty)
		_ = s.Wait()
		tty.Close()
		if got := strings.Contains(s.shown(), "\x1b["); got != c.colours || !strings.Contains(s.shown(), "holds") {
			t.Errorf("with %s: %q", c.env, s.shown())
		}
	}
}

// Promise: on a terminal watch shows what time has gone by, though nothing changes, and then
// the change.
func TestWatchIsLive(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?ttl=30s")
	release := keeps(t, url, "a")
	name, all := onScreen(t, 80, url, "watch", "a"), onScreen(t, 80, url, "watch")
	ages := regexp.MustCompile(`mutex\s+(?:\S+\s+)?job\s+([0-9.ms]+)`)
	for _, s := range []*screen{name, all} {
		busy.Until(t, "three times are shown", func() bool {
			seen := map[string]bool{}
			for _, m := range ages.FindAllStringSubmatch(escapes.ReplaceAllString(s.shown(), ""), -1) {
				seen[m[1]] = true
			}
			return len(seen) >= 3
		})
	}
	release()
	busy.Until(t, "the lock is free", func() bool {
		return strings.Contains(name.shown(), "a is free") && strings.Contains(all.shown(), "locks in use: 0")
	})
	for _, s := range []*screen{name, all} {
		errtest.None(t, s.Process.Signal(syscall.SIGTERM))
		s.ends(t)
		if code := s.ProcessState.ExitCode(); code != 143 {
			t.Errorf("%v: exit status %d", s.Args, code)
		}
	}
}

// Promise: what is higher than the screen is cut, and says so.
func TestWatchIsNoHigherThanTheScreen(t *testing.T) {
	t.Parallel()
	var l list
	for i := range 40 {
		l = append(l, interlock.Queue{Name: fmt.Sprint("q", i), Kind: "mutex"})
	}
	var b strings.Builder
	w := watcher{o: &options{}, out: &b}
	errtest.None(t, w.draw(l))
	if lines := strings.Count(b.String(), "\n"); lines != 23 || !strings.Contains(b.String(), "… and 20 more lines") {
		t.Errorf("%d lines on 24:\n%s", lines, b.String())
	}
}
