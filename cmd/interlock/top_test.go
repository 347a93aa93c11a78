//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/rivo/uniseg"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// glass is what people see of a terminal: it does what the escapes say that top writes.
type glass struct {
	columns, lines int
	cells          [][]string
	x, y           int
	read           int // bytes of the screen
}

func (g *glass) clear() {
	g.cells = make([][]string, g.lines)
	for y := range g.cells {
		g.cells[y] = strings.Split(strings.Repeat(" ", g.columns), "")
	}
}

var csi = regexp.MustCompile("^\x1b\\[[<=>?]?([0-9;]*)[a-zA-Z]|^\x1b[()][A-Z0-9]|^\x1b[=>78]|^\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)")

// show writes a text, and returns what is not a whole escape yet.
func (g *glass) show(t *testing.T, s string) (rest string) {
	t.Helper()
	if g.cells == nil {
		g.clear()
	}
	for s != "" {
		switch s[0] {
		case '\x1b':
			m := csi.FindStringSubmatch(s)
			if m == nil {
				if len(s) < 30 {
					return s
				}
				t.Fatalf("an escape that the glass does not know: %.40q", s)
			}
			s = s[len(m[0]):]
			switch m[0][len(m[0])-1] {
			case 'H':
				g.y, g.x = 0, 0
				if y, x, ok := strings.Cut(m[1], ";"); ok {
					g.y, _ = strconv.Atoi(y)
					g.x, _ = strconv.Atoi(x)
					g.y, g.x = g.y-1, g.x-1
				}
			case 'J':
				g.clear()
			}
			continue
		case '\b':
			g.x--
			s = s[1:]
			continue
		case '\r':
			g.x = 0
			s = s[1:]
			continue
		case '\n':
			g.y++
			s = s[1:]
			continue
		}
		if s[0] < ' ' && s[0] != 0x0f || s[0] == 0x7f {
			t.Fatalf("a character that steers: %.40q", s)
		}
		c, after, width, _ := uniseg.FirstGraphemeClusterInString(s, -1)
		if !utf8.FullRuneInString(s) || after == "" && !utf8.ValidString(c) {
			return s
		}
		s = after
		if g.y < g.lines && g.x < g.columns && width > 0 {
			g.cells[g.y][g.x] = c
			for i := 1; i < width && g.x+i < g.columns; i++ {
				g.cells[g.y][g.x+i] = ""
			}
		}
		g.x += width
	}
	return ""
}

// live is top on a terminal.
type live struct {
	*screen
	t     *testing.T
	mu    sync.Mutex
	glass glass
}

func onTop(t *testing.T, columns, lines uint16, url string, args ...string) *live {
	t.Helper()
	return onTopOf(t, columns, lines, cli(t, url, append([]string{"top"}, args...)...))
}

func onTopOf(t *testing.T, columns, lines uint16, c *exec.Cmd) *live {
	t.Helper()
	return &live{screen: onScreenOf(t, columns, lines, c), t: t, glass: glass{columns: int(columns), lines: int(lines)}}
}

// seen is the screen as it is now.
func (l *live) seen() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.text.String()
	l.glass.read = len(all) - len(l.glass.show(l.t, all[l.glass.read:]))
	var b strings.Builder
	for _, line := range l.glass.cells {
		b.WriteString(strings.TrimRight(strings.Join(line, ""), " ") + "\n")
	}
	return b.String()
}

// shows waits until the screen has a text that the expression matches.
func (l *live) shows(expression string) string {
	l.t.Helper()
	want, bound := regexp.MustCompile(expression), busy.Bound(20*time.Second)
	for end := time.Now().Add(bound); ; time.Sleep(20 * time.Millisecond) {
		seen := l.seen()
		if want.MatchString(seen) {
			return seen
		}
		select {
		case <-l.over:
			l.t.Fatalf("top has ended (%v), %q was not seen:\n%s", l.ProcessState, expression, l.shown())
		default:
		}
		if time.Now().After(end) {
			l.t.Fatalf("%q was not seen in %v:\n%s", expression, bound, seen)
		}
	}
}

func (l *live) types(keys string) {
	l.t.Helper()
	errtest.Must(l.tty.WriteString(keys))(l.t)
}

// client opens one with a name, until the test ends.
func clientAs(t *testing.T, url, owner string) *interlock.Client {
	t.Helper()
	c := errtest.Must(interlock.Open(t.Context(), url, interlock.Owner(owner)))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// holdsAs holds a lock until the test ends, or the lease is lost.
func holdsAs(t *testing.T, url, owner, name string, opts ...interlock.Option) *interlock.Lease {
	t.Helper()
	held := errtest.Must(clientAs(t, url, owner).Mutex(name, opts...).Acquire(t.Context()))(t)
	go func() {
		<-held.Done()
		_ = held.Release()
	}()
	return held
}

// waitsAs is the n-th to wait for a lock. It holds it until the test ends.
func waitsAs(t *testing.T, url, owner, name string, n int) {
	t.Helper()
	c := clientAs(t, url, owner)
	go func() { _, _ = c.Mutex(name).Acquire(t.Context()) }()
	busy.Until(t, owner+" waits", func() bool {
		q, err := c.Admin().Queue(t.Context(), name)
		return err == nil && len(q.Waiters) == n
	})
}

// Promise: in top one finds the lock that everybody waits for, opens it, evicts its holder after a question, and sees
// the next one hold, and how the grant ended.
func TestTopFindsTheLockThatAllWaitForAndEvictsItsHolder(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?ttl=10s")
	for i := range 30 {
		holdsAs(t, url, "quiet", fmt.Sprintf("quiet/%02d", i))
	}
	held := holdsAs(t, url, "first", "nightly", interlock.Note("backup"))
	for i := range 3 {
		waitsAs(t, url, fmt.Sprint("waiter", i), "nightly", i+1)
	}

	l := onTop(t, 80, 24, url)
	l.shows(`(?s)locks: 31, waiters: 3; listed in .* exchanges/s; by waiting.*IN LINE.*\n> nightly +first .* 3 `)
	l.types("\r")
	l.shows(`(?s)nightly is held by 1, 3 waiting.*\n> holds +first .*\n  waits 1 +waiter0 .*\n  waits 2 +waiter1 .*\n  waits 3 +waiter2 `)
	l.types("e")
	l.shows(`(?s)Evict first \([0-9a-f]+…?\) from nightly\?.*told that it has lost the lock.*Y evict it  f by force`)
	l.types("n")
	l.shows(`nothing was done`)
	if held.Err() != nil {
		t.Fatalf("another key than y has evicted: %v", held.Err())
	}
	l.types("e")
	l.shows(`Evict first`)
	l.types("Y")
	l.shows(`(?s)nightly is held by 1, 2 waiting.*\n> holds +waiter0 .*\n  waits 1 +waiter1 .*last grants of nightly.*waiter0 .* it holds\n.*first +backup.* evicted`)
	l.types("\x1b")
	l.shows(`(?s)\n> nightly +waiter0 .* 2 `)
	l.types("/quiet/1")
	l.shows(`(?s)locks: 10 of 31.*\n> quiet/10 `)
	l.types("\x1b")
	l.shows(`\nlocks: 31`)
	l.exits("q", 0)
}

// Promise: a holder is revoked after a question. To evict by force needs the word force.
func TestTopAsksTwiceBeforeForce(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?ttl=1h") // else the lock passes on by itself
	asked := errtest.Must(clientAs(t, url, "listens").Mutex("a").Acquire(t.Context()))(t)
	waitsAs(t, url, "next", "a", 1)
	l := onTop(t, 80, 24, url)
	l.shows(`> a +listens`)
	l.types("r")
	l.shows(`Ask listens \(.*\) to give a up\?`)
	l.types("y")
	l.shows(`asked listens to give a up`)
	select {
	case <-asked.Revoked():
	case <-time.After(busy.Bound(time.Minute)):
		t.Fatal("the holder was not asked in a minute")
	}
	l.types("e")
	l.shows(`Evict listens`)
	l.types("Y")
	l.shows(`(?s)> a +listens.*evicted listens from a`)
	busy.Until(t, "the holder has lost the lock", func() bool { return asked.Err() != nil })
	if q, err := clientAs(t, url, "looks").Admin().Queue(t.Context(), "a"); err != nil || len(q.Holders) != 1 || q.Holders[0].Owner != "listens" {
		t.Errorf("without force the lock has passed on while its holder was at work: %+v %v", q.Holders, err)
	}
	l.types("e")
	l.shows(`Evict listens`)
	l.types("f")
	l.shows(`(?s)BY FORCE: take a from listens.*two may hold`)
	l.types("Y\r")
	l.shows(`nothing was done`) // y is not enough
	l.types("ef")
	l.shows(`BY FORCE`)
	l.types("force")
	l.shows(`> force_`)
	l.types("\r")
	l.shows(`(?s)> a +next.*evicted listens from a`)
	l.exits("q", 0)
}

// Promise: while the backend is away, top says so in a line and shows the last state as an old one. Then it goes on.
func TestTopOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := s.URL() + "?ttl=1h"
	holdsAs(t, url, "me", "a", interlock.ExpiresAfter(time.Hour))
	for _, outage := range []struct{ begin, end func() }{{s.Pause, s.Resume}, {s.Stop, s.Restart}} {
		l := onTop(t, 80, 24, url)
		l.shows(`(?s)\nlocks: \d.*> a +me`)
		outage.begin()
		l.shows(`(?s)\nOLD: \d+m?\d*s ago\. locks: \d.*\n> a +me.*\n! (the backend does not answer|.*refused|.*closed|.*reset|.*EOF)`)
		l.types("?")
		l.shows(`r revoke, e evict`) // it is alive
		l.types(" ")
		outage.end()
		l.shows(`\nlocks: [01]`) // a server that was stopped has lost its locks
		holdsAs(t, url, "other", "b"+strconv.Itoa(l.Process.Pid), interlock.ExpiresAfter(time.Hour))
		l.shows(`\n.*b` + strconv.Itoa(l.Process.Pid) + ` +other`)
		l.exits("q", 0)
	}
}

// Promise: top draws what fits, in 40 columns and in 200, and follows the terminal when its size changes.
func TestTopFitsTheTerminal(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?ttl=30s")
	holdsAs(t, url, strings.Repeat("o", 100), strings.Repeat("n", 100), interlock.Note(strings.Repeat("t", 100)))
	waitsAs(t, url, "waiter", strings.Repeat("n", 100), 1)
	l := onTop(t, 40, 10, url)
	l.shows(`(?s)^interlock top.*\nlocks: 1, waiters: 1.*NAME +HOLDER +IN LINE WAIT\n> n+… o+… [\dms]+ +1\n\n+enter open  / filter  \? help  q quit\n$`)
	l.types("e")
	l.shows(`(?s)Evict o+….*from.*lost the lock.*over.*left.*\n.*Y evict it  f by force  other keys: no\n$`)
	l.types("n")
	l.types("\r")
	l.shows(`(?s)n+….*\n> holds +o+….*\n  waits 1 +waiter .*\n.*esc back`)
	l.types("\t")
	l.shows(`(?s)last grants of.*before .* it holds`)
	l.types("\x1b")
	l.shows(`(?s)waits 1 +waiter`)
	l.resize(200, 50)
	l.shows(`(?s)> holds +o{30,}.*mutex.* t{20,}.* [0-9a-f]{7}…\n  waits 1.*last grants of`)
	l.resize(20, 4)
	l.shows(`(?s)^interlock ….*esc back  tab grant…\n$`)
	l.exits("q", 0)
}

// Promise: a name does nothing to the terminal of top, and to its other lines.
func TestNoNameSteersTop(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?ttl=30s")
	for i, text := range []string{hostile, "\u202e\u2066", strings.Repeat("宽", 60), "e" + strings.Repeat("\u0301", 90), "👩\u200d👩\u200d👧" + strings.Repeat("👩🏽", 20)} {
		name := strings.Map(func(r rune) rune { // of a name, the library refuses these
			if unicode.IsControl(r) || r == '\u2028' {
				return 'x'
			}
			return r
		}, text)
		holdsAs(t, url, text, fmt.Sprint(i)+name, interlock.Note(text))
	}
	for _, columns := range []uint16{40, 80, 163} {
		l := onTop(t, columns, 24, url, "--sort", "name")
		seen := l.shows(`(?s)> 0x]0;pwned.*\n  1··.*\n  2宽+….*\n  3[e?].*\n  4👩`)
		meek(t, "top", seen)
		for line := range strings.Lines(seen) {
			if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > int(columns) {
				t.Errorf("a line of %d cells in %d: %s", n, columns, line)
			}
		}
		l.types("\r")
		meek(t, "top", l.shows(`> holds +·]0;pw`))
		l.types("e")
		meek(t, "top", l.shows(`Evict ·`))
		l.types("n")
		l.exits("q", 0)
	}
}

// Promise: without a terminal, top says what to take instead.
func TestTopNeedsATerminal(t *testing.T) {
	t.Parallel()
	url := testURL(t, "")
	c := cli(t, url, "top")
	out, err := c.Output()
	if said := fmt.Sprint(c.Stderr); err == nil || c.ProcessState.ExitCode() != exitUsage || len(out) > 0 || !strings.Contains(said, "take interlock watch") {
		t.Errorf("%v %q %s", err, out, said)
	}
	for _, args := range [][]string{{"top", "--json"}, {"top", "--sort", "nothing"}, {"top", "--older", "-1s"}} {
		s := onScreen(t, 80, url, args...)
		said := s.ends(t)
		if s.ProcessState.ExitCode() != exitUsage || strings.Contains(said, "\x1b") {
			t.Errorf("%v: %v %q", args, s.ProcessState, said)
		}
	}
	c = cli(t, url, "top")
	piped := onScreenOf(t, 80, 24, exec.Command("sh", "-c", "INTERLOCK_URL='"+url+"' "+c.Path+" top | cat"))
	if said := piped.ends(t); !strings.Contains(said, "take interlock watch") || strings.Contains(said, "\x1b") {
		t.Errorf("into a pipe: %q", said)
	}
	dumb := onScreenOf(t, 80, 24, exec.Command("env", "TERM=dumb", c.Path, "top"))
	if said := dumb.ends(t); dumb.ProcessState.ExitCode() != exitUsage || !strings.Contains(said, "take interlock watch") {
		t.Errorf("on a dumb terminal: %v %q", dumb.ProcessState, said)
	}
}

// Promise: signals, keys and the end of the terminal end top, and it leaves the terminal as it was.
func TestTopLeavesTheTerminalAsItWas(t *testing.T) {
	t.Parallel()
	url := testURL(t, "?ttl=30s")
	holdsAs(t, url, "me", "a")
	fresh, tty, err := pty.Open() // top may have begun before its own is looked at
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	defer tty.Close()
	before := errtest.Must(unix.IoctlGetTermios(int(fresh.Fd()), unix.TCGETS))(t)
	for what, end := range map[string]func(l *live){
		"143": func(l *live) { _ = l.Process.Signal(syscall.SIGTERM) },
		"129": func(l *live) { _ = l.Process.Signal(syscall.SIGHUP) },
		"131": func(l *live) { _ = l.Process.Signal(syscall.SIGQUIT) },
		"130": func(l *live) { l.types("\x03") },
		"0":   func(l *live) { l.types("q") },
		"-":   func(l *live) { l.tty.Close() },
	} {
		l := onTop(t, 80, 24, url)
		l.shows(`> a +me`)
		end(l)
		l.ended()
		if what == "-" {
			if code := l.ProcessState.ExitCode(); code != 129 && code != 141 && code != exitIO {
				t.Errorf("after the end of the terminal: %v", l.ProcessState)
			}
			continue
		}
		if code := strconv.Itoa(l.ProcessState.ExitCode()); code != what {
			t.Errorf("exit status %s, want %s", code, what)
		}
		if left := l.shown(); !strings.HasSuffix(left, "\x1b[?2004l") && !strings.Contains(left[strings.LastIndex(left, "interlock top"):], "\x1b[?1049l") || strings.LastIndex(left, "\x1b[?25h") < strings.LastIndex(left, "\x1b[?25l") {
			t.Errorf("%s: it leaves the screen with %.300q", what, left[max(0, len(left)-300):])
		}
		after, err := unix.IoctlGetTermios(int(l.tty.Fd()), unix.TCGETS)
		if err == nil && *after != *before {
			t.Errorf("%s: the terminal was %+v, and is %+v", what, before, after)
		}
	}
}

// exits presses a key and waits for the end.
func (l *live) exits(key string, code int) {
	l.t.Helper()
	l.types(key)
	l.ended()
	if got := l.ProcessState.ExitCode(); got != code {
		l.t.Errorf("exit status %d, want %d: %s", got, code, l.seen())
	}
}

func (l *live) ended() {
	l.t.Helper()
	select {
	case <-l.over:
	case <-time.After(busy.Bound(time.Minute)):
		l.t.Fatalf("top has not ended in a minute:\n%s", l.seen())
	}
}

func (l *live) resize(columns, lines uint16) {
	l.t.Helper()
	l.mu.Lock()
	l.glass.columns, l.glass.lines = int(columns), int(lines)
	l.glass.clear()
	l.mu.Unlock()
	errtest.None(l.t, pty.Setsize(l.tty, &pty.Winsize{Rows: lines, Cols: columns}))
}

// Promise: with 10,000 locks and 1,000 waiters for one of them, top lists at most once a second and for a tenth of the
// time, reads an open lock as often, and writes a few kilobytes a second to the terminal.
func TestTopCostsLittle(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := s.URL() + "?ttl=1h"
	c := clientAs(t, url, "many")
	var all errgroup.Group
	var first *interlock.Lease
	handover := make(chan struct{})
	all.SetLimit(100)
	for i := range 10_000 {
		all.Go(func() error {
			held, err := c.Mutex(fmt.Sprintf("lock/%05d", i), interlock.ExpiresAfter(time.Hour)).Acquire(t.Context())
			if i == 7777 {
				first = held
			}
			return err
		})
	}
	errtest.None(t, all.Wait())
	for range 1_000 {
		go func() {
			if held, err := c.Mutex("lock/07777", interlock.ExpiresAfter(time.Hour)).Acquire(t.Context()); err == nil {
				<-handover
				_ = held.Release()
			}
		}()
	}
	busy.Until(t, "1,000 wait", func() bool {
		q, err := c.Admin().Queue(t.Context(), "lock/07777")
		return err == nil && len(q.Waiters) == 1_000
	})

	l := onTop(t, 80, 24, url)
	l.shows(`(?s)\nlocks: 10000, waiters: 1000; .*\n> lock/07777 +many .* 1000 `)
	cost := func(what string, mostExchanges int) {
		t.Helper()
		const span = 5 * time.Second
		before, sent := stats(t, s), len(l.text.String())
		time.Sleep(span) // what is measured is a rate
		after, written := stats(t, s), len(l.text.String())-sent
		seconds := after.at.Sub(before.at).Seconds()
		rate := func(n int) float64 { return float64(n) / seconds }
		seen := regexp.MustCompile(`listed in (\S+), (\d+) exchanges/s`).FindStringSubmatch(l.seen())
		t.Logf("%s: %.1f commands/s, %.0f kB/s from Redis, %.2f kB/s to the terminal; top says %v", what,
			rate(after.commands-before.commands), rate(after.bytes-before.bytes)/1000, rate(written)/1000, seen)
		if seen == nil {
			t.Fatalf("no figures:\n%s", l.seen())
		}
		if n, _ := strconv.Atoi(seen[2]); n > mostExchanges {
			t.Errorf("%s: %d exchanges a second", what, n)
		}
		if rate(written) > 5_000 {
			t.Errorf("%s: %.0f bytes a second to the terminal", what, rate(written))
		}
	}
	cost("a list", 250)
	l.types("\x1b[6~\x1b[6~") // page down: what is seen is made, without the backend
	l.shows(`> lock/000\d\d`)
	l.types("\x1b[H\r")
	l.shows(`(?s)lock/07777 is held by 1, 1000 waiting.*\n  waits 9 +many`)
	l.types("\x1b[F")
	l.shows(`(?s)\n  waits 999 .*\n> waits 1000 `)
	cost("an open lock", 250)
	go func() {
		for range 1_000 {
			select {
			case handover <- struct{}{}:
				time.Sleep(50 * time.Millisecond) // twenty a second at most
			case <-t.Context().Done():
			}
		}
	}()
	errtest.None(t, first.Release())
	cost("an open lock that changes hands", 250)
	l.shows(`lock/07777 is held by 1, [1-9]\d\d waiting`)
	l.exits("q", 0)
}

type redisStats struct {
	at              time.Time
	commands, bytes int
}

func stats(t *testing.T, s *redistest.Server) redisStats {
	t.Helper()
	answer := errtest.Must(s.Do("INFO", "stats"))(t)
	of := func(name string) int {
		m := regexp.MustCompile(name + `:(\d+)`).FindStringSubmatch(fmt.Sprint(answer))
		if m == nil {
			t.Fatalf("no %s in %v", name, answer)
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return redisStats{time.Now(), of("total_commands_processed"), of("total_net_output_bytes")}
}
