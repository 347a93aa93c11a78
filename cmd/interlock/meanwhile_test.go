//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// terminal is a pseudo-terminal of 150 columns, and what it shows.
type terminal struct {
	t             *testing.T
	master, slave *os.File
	raw           written
}

const columns = 150

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	master, slave, err := pty.Open()
	errtest.None(t, err)
	s := &terminal{t: t, master: master, slave: slave}
	s.resize(columns)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(&s.raw, master) // ends with an error when the terminal is closed
	}()
	t.Cleanup(func() {
		_, _ = slave.Close(), master.Close()
		<-ended
	})
	return s
}

func (s *terminal) resize(columns uint16) {
	errtest.None(s.t, pty.Setsize(s.master, &pty.Winsize{Rows: 24, Cols: columns}))
}

// on starts the command with the terminal as standard error.
func (s *terminal) on(url string, args ...string) *started {
	s.t.Helper()
	c := &started{Cmd: cli(s.t, url, args...), t: s.t}
	c.Env = append(c.Env, "TERM=xterm")
	c.Stderr = s.slave
	c.begin()
	return c
}

// screen is what the terminal shows: it knows \r, \n and the end of a line that is wiped.
func (s *terminal) screen() string {
	raw := s.raw.String()
	var lines []string
	var line []rune
	at := 0
	for raw != "" {
		if rest, ok := strings.CutPrefix(raw, "\x1b[K"); ok {
			line, raw = line[:at], rest
			continue
		}
		r, n := utf8.DecodeRuneInString(raw)
		raw = raw[n:]
		switch r {
		case '\r':
			at = 0
		case '\n':
			lines, line, at = append(lines, string(line)), nil, 0
		default:
			line = slices.Replace(line, at, min(at+1, len(line)), r)
			at++
		}
	}
	return strings.Join(append(lines, string(line)), "\n")
}

// shows waits until the screen matches.
func (s *terminal) shows(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the terminal shows %q", s.screen())
		}
	}()
	busy.Until(s.t, "the terminal shows "+pattern, func() bool { return re.MatchString(s.screen()) })
}

// heldByText is how a wait tells of a holder.
func heldByText(c *started, note string) string {
	return "held by " + regexp.QuoteMeta(hostPid(c.Process.Pid)) + ` \(in line since [0-9: -]+, note ` + note + `\)`
}

// Promise: who waits at a terminal sees who holds and how many are before, on a line that is
// kept up to date, stays below what else is said, fits the terminal, and is gone when the job begins.
func TestAWaitAtATerminalShowsWhoHolds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := s.URL() + "?" + longTTL
	holder := holds(t, url, "a")
	one, two := newTerminal(t), newTerminal(t)
	first := one.on(url, "run", "a", "-c", `echo the job >&2; touch held; until test -e go; do sleep 0.01; done`)
	one.shows(`^interlock: a is ` + heldByText(holder, "job") + `; this one is next$`)
	second := two.on(url, "run", "a", "--", "true")
	two.shows(`^interlock: a is ` + heldByText(holder, "job") + `; 1 before this one$`)

	s.Pause()
	one.shows(`^interlock: the backend does not answer: .*\ninterlock: a is held by .*; this one is next$`)
	two.shows(`^interlock: the backend does not answer: .*\ninterlock: a is held by .*; 1 before this one$`)
	s.Resume()
	one.shows(`\ninterlock: the backend answers again\ninterlock: a is held by .*; this one is next$`)
	two.shows(`\ninterlock: the backend answers again\ninterlock: a is held by .*; 1 before this one$`)

	two.resize(40)
	_ = holder.Process.Signal(syscall.SIGUSR1)
	first.has("held")
	two.shows(`\ninterlock: a is held by .*…$`)
	shown := two.screen()
	if last := shown[strings.LastIndex(shown, "\n")+1:]; utf8.RuneCountInString(last) > 39 {
		t.Errorf("on 40 columns it shows %q", last)
	}
	two.resize(columns)
	first.touch("go")
	first.ends(0, soon)
	second.ends(0, soon)
	one.shows(`^(interlock: the backend does not answer: .*\ninterlock: the backend answers again\n)+the job\n$`)
	two.shows(`^(interlock: the backend does not answer: .*\ninterlock: the backend answers again\n)+$`)
}

// Promise: so it is for latches and barriers.
func TestAWaitAtATerminalShowsWhatIsMissing(t *testing.T) {
	t.Parallel()
	url := testURL(t, "")
	do := func(args ...string) {
		t.Helper()
		if out, err := cli(t, url, args...).Output(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	l, b := newTerminal(t), newTerminal(t)
	do("barrier", "set", "b")
	latch, barrier := l.on(url, "latch", "wait", "l"), b.on(url, "barrier", "wait", "b")
	l.shows(`^interlock: waiting for the latch l: not set$`)
	do("latch", "set", "l", "2")
	l.shows(`^interlock: waiting for the latch l: 2 left$`)
	do("latch", "count-down", "l")
	l.shows(`^interlock: waiting for the latch l: 1 left$`)
	do("latch", "count-down", "l")
	latch.ends(0, soon)
	l.shows(`^$`)
	b.shows(`^interlock: waiting for the barrier b: still set$`)
	do("barrier", "remove", "b")
	barrier.ends(0, soon)
	b.shows(`^$`)
}

// Promise: with -v it is told in lines; without a terminal and -v, not at all.
func TestAWaitTellsWhoHoldsInLines(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?"+longTTL)
	holder := holds(t, url, "a")
	still := start(t, url, "run", "a", "--", "true")
	waits(t, url, "a")
	w := start(t, url, "run", "-v", "--status-fd", "3", "a", "--", "true")
	w.says("interlock: a is held by " + hostPid(holder.Process.Pid) + " (in line since ")
	w.says(", note job); 1 before this one\n")
	if lines, err := os.ReadFile(w.Dir + "/status"); err != nil || string(lines) != "waiting\nline\n" {
		t.Errorf("its status is %q (%v)", lines, err)
	}
	_ = holder.Process.Signal(syscall.SIGUSR1)
	w.ends(0, soon)
	still.ends(0, soon)
	if text := still.stderr(); text != "" {
		t.Errorf("without -v it says %q", text)
	}

	leader := start(t, url, "elect", "--value", "me", "e", "--", "job", "wait", "held")
	leader.has("held")
	e := start(t, url, "elect", "-v", "e", "--", "true")
	e.says(", note me); this one is next\n")
	_ = leader.Process.Signal(syscall.SIGUSR1)
	e.ends(0, soon)

	l := start(t, url, "latch", "wait", "-v", "l")
	l.says("interlock: waiting for the latch l: not set\n")
	for _, args := range [][]string{{"latch", "set", "l", "1"}, {"latch", "count-down", "l"}} {
		errtest.None(t, cli(t, url, args...).Run())
	}
	l.ends(0, soon)
}

// Promise: a command in the background leaves the terminal alone.
func TestAWaitInTheBackgroundShowsNothing(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?"+longTTL)
	holder := holds(t, url, "a")
	show := func(command string) *terminal {
		s := newTerminal(t)
		c := cli(t, url)
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", command}
		c.Env = append(c.Env, "TERM=xterm")
		c.Stdin, c.Stdout, c.Stderr = s.slave, s.slave, s.slave
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		errtest.None(t, c.Start())
		over := make(chan struct{})
		go func() {
			_ = c.Wait()
			close(over)
		}()
		t.Cleanup(func() {
			_ = holder.Process.Signal(syscall.SIGUSR1)
			<-over
		})
		return s
	}
	background := show(`set -m; interlock run a -- true & wait`)
	waits(t, url, "a")
	show(`exec interlock run a -- true`).shows(`a is held by .*; 1 before this one$`) // it came later
	if text := background.screen(); text != "" {
		t.Errorf("in the background it shows %q", text)
	}
}

// Promise: looking delays nothing: neither a terminal that takes nothing more, nor a backend
// that refuses it.
func TestLookingWhoHoldsChangesNothingInTheWait(t *testing.T) {
	t.Parallel()
	t.Run("at a terminal that stands still", func(t *testing.T) {
		t.Parallel()
		url := testURL(t, "?"+longTTL)
		holder := holds(t, url, "a")
		s := newTerminal(t)
		if _, err := s.master.WriteString("\x13"); err != nil { // Ctrl-S
			t.Fatal(err)
		}
		w := s.on(url, "run", "a", "--", "job", "wait", "ran")
		waits(t, url, "a")
		start(t, url, "run", "-v", "a", "--", "true").says("; 1 before this one") // it looks later
		_ = holder.Process.Signal(syscall.SIGUSR1)
		w.has("ran")
		_ = w.Process.Signal(syscall.SIGUSR1)
		w.ends(0, soon)
		if text := s.screen(); text != "" {
			t.Errorf("it shows %q", text)
		}
	})
	t.Run("without the right", func(t *testing.T) {
		t.Parallel()
		s := pgtest.Start(t, pgtest.User("app", "secret"))
		holder := holds(t, s.URL()+"&"+longTTL, "a")
		s.SQL(schema(t, "--url", s.URL(), "--only-grants", "--grant", "app"))
		s.SQL("REVOKE EXECUTE ON FUNCTION interlock.read FROM PUBLIC, app")
		url := s.URLOf("app", "secret") + "&" + longTTL
		start(t, url, "show", "a").ends(exitUnreachable, soon)
		late := start(t, url, "run", "-n", "a", "--", "true")
		late.ends(exitBusy, soon)
		if text := late.stderr(); text != "interlock: a is busy\n" {
			t.Errorf("it says %q", text)
		}
		w := start(t, url, "run", "-v", "a", "--", "true")
		waits(t, s.URL(), "a")
		start(t, s.URL(), "run", "-v", "a", "--", "true").says("; 1 before this one") // it looks later
		_ = holder.Process.Signal(syscall.SIGUSR1)
		w.ends(0, soon)
		if text := w.stderr(); strings.Contains(text, "held by") || strings.Contains(text, "denied") {
			t.Errorf("it says %q", text)
		}
	})
}

// Promise: a place in line is told only if it is certain whose it is: owners can have one name.
func TestAPlaceIsToldIfItIsCertain(t *testing.T) {
	m := func(owner string) interlock.Member { return interlock.Member{Owner: owner} }
	q := interlock.Queue{Waiters: []interlock.Member{m("a"), m("b"), m("two"), m("c"), m("two")}}
	for owner, want := range map[string]string{
		"a": "; this one is next", "b": "; 1 before this one", "c": "; 3 before this one", "two": "", "nobody": "",
	} {
		if got := before(q, owner); got != want {
			t.Errorf("%s is told %q, not %q", owner, got, want)
		}
	}
	for url, want := range map[string]string{"mem:": hostPid(os.Getpid()), "mem:?owner=me": "me", "mem:?ttl=9s": hostPid(os.Getpid())} {
		if got := (backend{url: url}).owner(); got != want {
			t.Errorf("with %s the owner is %q, not %q", url, got, want)
		}
	}
}

// Promise: a holder is described by what is known of it, and by no more: of another program that is its name.
func TestAHolderIsDescribedByWhatIsKnown(t *testing.T) {
	for want, m := range map[string]interlock.Member{
		`^another program, pid 7$`:        {Owner: "another program, pid 7"},
		`^a \(note sh\)$`:                 {Owner: "a", Note: "sh"},
		`^a \(in line since [0-9: -]+\)$`: {Owner: "a", Since: time.Now()},
	} {
		if got := described(m); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%+v is described as %q, not %s", m, got, want)
		}
	}
}

// Promise: "busy" names the holder on every backend, and who shares a lock is counted.
func TestBusyNamesTheHolder(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, _ server, url string) {
		url += longTTL
		// A backend that takes longer than half a second to tell, such as on a busy machine, is not waited for.
		says := func(args ...string) (text string) {
			busy.Until(t, "busy names a holder", func() bool {
				late := start(t, url, append([]string{"run"}, args...)...)
				late.ends(exitBusy, soon)
				text = late.stderr()
				return strings.Contains(text, "is busy: ")
			})
			return text
		}
		holder := holds(t, url, "a")
		want := fmt.Sprintf(`^interlock: a is busy: %s\n$`, heldByText(holder, "job"))
		if text := says("-n", "a", "--", "true"); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("it says %q, not %s", text, want)
		}
		for range 2 {
			holds(t, url, "--permits", "2", "s")
		}
		wait := fmt.Sprint(busy.Bound(time.Second / 2).Seconds())
		if text := says("-w", wait, "--permits", "2", "s", "--", "true"); !strings.HasSuffix(text, ", note job) and 1 more\n") {
			t.Errorf("it says %q", text)
		}
	})
}
