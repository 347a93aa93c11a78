//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/flock"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// started is a command under way whose complaints can be read meanwhile.
type started struct {
	*exec.Cmd
	t    *testing.T
	over chan struct{} // closed when it has ended
	err  error
	said written
}

func (s *started) stderr() string { return s.said.String() }

// written is what a command writes, and can be read meanwhile.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// start starts the command, with a file status at descriptor 3. It does not outlive the
// test.
func start(t *testing.T, url string, args ...string) *started {
	t.Helper()
	s := &started{Cmd: cli(t, url, args...), t: t}
	s.begin()
	return s
}

func (s *started) begin() {
	s.t.Helper()
	if _, ok := s.Stderr.(*bytes.Buffer); ok {
		s.Stderr = &s.said
	}
	s.Dir = s.t.TempDir()
	status, err := os.Create(filepath.Join(s.Dir, "status"))
	errtest.None(s.t, err)
	defer status.Close()
	s.ExtraFiles = []*os.File{status}
	errtest.None(s.t, s.Start())
	s.over = make(chan struct{})
	go func() {
		s.err = s.Wait()
		close(s.over)
	}()
	s.t.Cleanup(func() {
		_ = s.Process.Kill()
		<-s.over
	})
}

// until waits for a condition as long as the command runs.
func (s *started) until(what string, ok func() bool) {
	s.t.Helper()
	busy.Until(s.t, what, func() bool {
		select {
		case <-s.over:
			if !ok() {
				s.t.Fatalf("it has ended (%v) before %s: %s", s.err, what, s.stderr())
			}
			return true
		default:
			return ok()
		}
	})
}

// has waits until the job has made a file.
func (s *started) has(name string) {
	s.t.Helper()
	s.until("there is a file "+name, func() bool {
		_, err := os.Stat(filepath.Join(s.Dir, name))
		return err == nil
	})
}

// touch makes a file that the job waits for.
func (s *started) touch(name string) {
	s.t.Helper()
	errtest.None(s.t, os.WriteFile(filepath.Join(s.Dir, name), nil, 0o600))
}

// writes waits until its job, which is a hard one with this name, and the children of that write notes.
func (s *started) writes(notes, who string) {
	s.t.Helper()
	s.until("the job "+who+" and its children write", func() bool {
		b, _ := os.ReadFile(notes)
		return bytes.Contains(b, []byte(who+" 0")) && bytes.Contains(b, []byte(who+" 3"))
	})
}

// lastIs makes sure that nothing was noted after a line.
func lastIs(t *testing.T, notes, line string) {
	t.Helper()
	b := errtest.Must(os.ReadFile(notes))(t)
	if _, after, ok := bytes.Cut(b, []byte(line+"\n")); !ok || len(after) > 0 {
		t.Errorf("%d bytes were noted after the line %q, which is there: %v", len(after), line, ok)
	}
}

// says waits until the command has complained so.
func (s *started) says(text string) {
	s.t.Helper()
	s.until("it says "+text, func() bool { return strings.Contains(s.stderr(), text) })
}

// ends waits for the end, which must come within this time, with this status.
func (s *started) ends(code int, in time.Duration) {
	s.t.Helper()
	select {
	case <-s.over:
	case <-time.After(in):
		s.t.Fatalf("it has not ended in %v: %s", in, s.stderr())
	}
	var exit *exec.ExitError
	if s.err != nil && !errors.As(s.err, &exit) {
		s.t.Fatal(s.err)
	}
	if got := s.ProcessState.ExitCode(); got != code {
		s.t.Fatalf("exit status %d, not %d: %s", got, code, s.stderr())
	}
}

// waits waits until there is a second one in line.
func waits(t *testing.T, url, name string) {
	t.Helper()
	busy.Until(t, "somebody waits", func() bool {
		out, _ := cli(t, url, "show", "--json", name).Output()
		return strings.Count(string(out), `"id"`) == 2
	})
}

// a server that can go away.
type server interface {
	Kill()
	Pause()
	Resume()
	Restart()
}

// behind is a server of many processes, which a signal to one does not stop.
type behind struct {
	*pgtest.Server
	proxy *pgtest.Proxy
}

func (b behind) Pause()  { b.proxy.Hang() }
func (b behind) Resume() { b.proxy.Resume() }

// onEachServer runs a test on every backend that is a server. The URLs take more options.
func onEachServer(t *testing.T, f func(t *testing.T, s server, url string)) {
	for name, start := range map[string]func(*testing.T) (server, string){
		"Redis": func(t *testing.T) (server, string) { s := redistest.Start(t); return s, s.URL() + "?" },
		"ZooKeeper": func(t *testing.T) (server, string) {
			s := zktest.Start(t, zktest.Tick(2*time.Second)) // as Debian configures it
			return s, "zk://" + s.Addr + "/?"
		},
		"PostgreSQL": func(t *testing.T) (server, string) {
			s := pgtest.Start(t)
			p := pgtest.NewProxy(t, s.Addr)
			return behind{s, p}, strings.Replace(s.URL(), s.Addr, p.Addr, 1) + "&"
		},
		"MariaDB": func(t *testing.T) (server, string) { s := mysqltest.Start(t); return s, s.URL() + "?" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := start(t)
			f(t, s, url)
		})
	}
}

// Longer than any of these tests may take: what waits for a TTL to run out fails them.
const longTTL = "ttl=2m"

// soon is how long a command may take to end, and to be started, on a busy machine.
const soon = 30 * time.Second

// goings are the ways in which a server goes away, and how it comes back.
var goings = []struct {
	how        string
	away, back func(server)
}{
	{"paused", server.Pause, server.Resume},
	{"killed", server.Kill, server.Restart},
}

// onEachGoing runs a test for each way in which each server goes away: with a lock of its
// own, and a function that makes the server go.
func onEachGoing(t *testing.T, f func(t *testing.T, url, lock string, away func())) {
	onEachServer(t, func(t *testing.T, s server, url string) {
		for _, g := range goings {
			f(t, url+longTTL, g.how, func() { g.away(s) })
			g.back(s)
		}
	})
}

// holds starts a job that holds a lock until it gets SIGUSR1: the arguments are the lock, and flags of run.
func holds(t *testing.T, url string, args ...string) *started {
	t.Helper()
	holder := start(t, url, append(append([]string{"run"}, args...), "--", "job", "wait", "held")...)
	holder.has("held")
	return holder
}

// Promise: a job that ends while its lease is valid is not reported as lost: interlock ends
// at once with the job's status, and says that the lock could not be given back.
func TestAJobThatHasSucceededIsNotLostWhenTheBackendGoesAway(t *testing.T) {
	t.Parallel()
	onEachGoing(t, func(t *testing.T, url, lock string, away func()) {
		r := start(t, url, "run", lock, "-c", `touch held; until test -e go; do sleep 0.01; done; exit 3`)
		r.has("held")
		away()
		r.touch("go")
		r.ends(3, soon)
		text := r.stderr()
		if strings.Count(text, "could not be given back") != 1 || strings.Contains(text, "lost") {
			t.Errorf("%s: it says %q", lock, text)
		}
	})
}

// Promise: a wait that loses the backend says so when that begins, and ends in its time,
// with 69 and the reason.
func TestAWaitTellsThatTheBackendHasGoneAway(t *testing.T) {
	t.Parallel()
	onEachGoing(t, func(t *testing.T, url, lock string, away func()) {
		holds(t, url, lock)
		w := start(t, url, "run", "-w", "8", lock, "--", "true")
		waits(t, url, lock)
		away()
		w.says("the backend does not answer: ")
		w.ends(exitUnreachable, soon)
		if text := w.stderr(); !strings.Contains(text, "gave up") || strings.Contains(text, "busy") || strings.Contains(text, "(the backend") {
			t.Errorf("%s: it says %q", lock, text)
		}
	})
}

// Promise: a wait that ends while the backend answers but refuses says what it refuses, and not
// that somebody holds the lock, or that nobody answers.
func TestAWaitTellsWhatTheBackendRefuses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := s.URL() + "?" + longTTL
	holds(t, url, "other")
	errtest.Must(s.Do("CONFIG", "SET", "min-replicas-to-write", "1"))(t)
	w := start(t, url, "run", "-w", "4", "a", "--", "true")
	w.says("trying again: redis: NOREPLICAS")
	w.ends(exitUnreachable, soon)
	if text := w.stderr(); strings.Count(text, "trying again") != 1 || !strings.Contains(text, "gave up: the backend refuses: redis: NOREPLICAS") || strings.Contains(text, "no answer") {
		t.Errorf("it says %q", text)
	}
	w = start(t, url, "run", "a", "--", "true") // would wait for ever
	w.says("trying again: redis: NOREPLICAS")
	errtest.Must(s.Do("CONFIG", "SET", "min-replicas-to-write", "0"))(t)
	w.ends(0, soon)
	start(t, url, "run", "-w", "1", "other", "--", "true").ends(exitBusy, soon)
}

// Promise: what the backend refuses is told once, though the pause between two tries can be longer than
// that between two looks; and again, if tries fail anew after all went well for a while.
func TestARefusalIsToldOnceInARowOfTries(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	told := 0
	k := &client{tell: func(event, _ string) {
		if event == "retry" {
			told++
		}
	}}
	look := func(failed bool) {
		if failed {
			k.retried(refused)
		}
		k.judge(nil, time.Second)
	}
	for _, failed := range []bool{true, true, false, true, false, false, true} {
		look(failed)
	}
	if told != 1 {
		t.Errorf("told %d times in one row, not once", told)
	}
	for range rowEnds / time.Second {
		look(false)
	}
	if look(true); told != 2 {
		t.Errorf("told %d times in two rows", told)
	}
}

// Promise: a wait outlasts the backend's absence, and says when that is over.
func TestAWaitTellsThatTheBackendIsBack(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s server, url string) {
		url += longTTL
		holder := holds(t, url, "a")
		w := start(t, url, "run", "--status-fd", "3", "a", "--", "true")
		waits(t, url, "a")
		s.Pause()
		w.says("the backend does not answer")
		s.Resume()
		w.says("the backend answers again")
		_ = holder.Process.Signal(syscall.SIGUSR1)
		w.ends(0, soon)
		lines, err := os.ReadFile(filepath.Join(w.Dir, "status"))
		if got := strings.Join(strings.Fields(string(lines)), " "); err != nil || !regexp.MustCompile(`^waiting (away back )+acquired \d+ (leftovers )?ended 0$`).MatchString(got) {
			t.Errorf("its status is %q (%v)", got, err)
		}
	})
}

// Promise: a signal ends a wait also when the backend is away.
func TestASignalEndsAWaitWithoutABackend(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, s server, url string) {
		url += longTTL
		holds(t, url, "a")
		w := start(t, url, "run", "a", "--", "true")
		waits(t, url, "a")
		s.Pause()
		_ = w.Process.Signal(syscall.SIGTERM)
		w.ends(exitSignal+int(syscall.SIGTERM), soon)
	})
}

// stubbornly starts a program that ends by the signals of untilSignal only; it has begun.
func stubbornly(t *testing.T) *started {
	c := &started{Cmd: cli(t, "", "stubborn", "caught"), t: t}
	c.Path, c.Args[0] = filepath.Join(binDir, "job"), "job"
	c.begin()
	c.has("caught")
	return c
}

// Promise: a second signal ends interlock at once, whatever it waits for.
func TestASecondSignalEndsAllAtOnce(t *testing.T) {
	t.Parallel()
	c := stubbornly(t)
	_ = c.Process.Signal(syscall.SIGTERM)
	c.has("caught-again")
	_ = c.Process.Signal(syscall.SIGINT)
	c.ends(exitSignal+int(syscall.SIGINT), soon)
}

// Promise: the same signal twice at once is one: timeout(1) signals its child, and then the
// group of which that is a part. On a slow machine two signals may be apart for longer than
// that, so one of some tries is enough.
func TestASignalThatComesTwiceAtOnceIsOne(t *testing.T) {
	t.Parallel()
	for range 10 {
		c := stubbornly(t)
		_ = c.Process.Signal(syscall.SIGINT)
		c.has("caught-again")
		_ = c.Process.Signal(syscall.SIGINT)
		_ = c.Process.Signal(syscall.SIGTERM) // comes later: it has a larger number
		select {
		case <-c.over:
		case <-time.After(soon):
			t.Fatal("it has not ended")
		}
		if c.ProcessState.ExitCode() == exitSignal+int(syscall.SIGTERM) {
			return
		}
	}
	t.Error("the same signal has ended it each time")
}

// Promise: no command waits for ever for a backend that does not answer: 69, and the reason.
func TestEveryCommandGivesUpWithoutABackend(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := s.URL()
	s.Pause()
	all := map[string]*started{}
	for _, command := range []string{
		"run a -- true", "run -n a -- true", "acquire --hold 1m a", "extend a 1 1m", "release a 1", "run -w 1 a -- true", "elect a -- true",
		"ls", "show a", "watch a", "revoke a", "evict a", "doctor", "observe a", "observe --once a",
		"latch set a 1", "latch count-down a", "latch wait a", "latch wait -w 1 a", "latch get a", "latch reset a",
		"barrier set a", "barrier remove a", "barrier wait a", "barrier get a",
		"value get a", "value set a x", "value set --version 1 a x", "value delete a", "value watch a",
	} {
		all[command] = start(t, url, strings.Fields(command)...)
	}
	for command, c := range all {
		c.ends(exitUnreachable, patience+soon)
		if command == "doctor" {
			continue // the finding says it
		}
		if text := c.stderr(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "open redis://") {
			t.Errorf("%s says %q", command, text)
		}
	}
}

// Promise: so it is if the backend goes away later, and who waits for others says so and
// goes on.
func TestEveryCommandGivesUpWhenTheBackendGoesAway(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, redistest.Start(t).Addr)
	url := "redis://" + p.Addr
	p.LoseRequests(1<<30, func(m redistest.Message) bool { // all that names a cell
		return slices.ContainsFunc(m.Request, func(arg string) bool { return strings.HasSuffix(arg, "}:c") })
	})
	watch := start(t, url, "value", "watch", "a")
	all := map[string]*started{}
	for _, command := range []string{
		"latch get a", "latch count-down a", "latch wait -w 4 a", "barrier set a", "barrier wait -w 4 a",
		"value get a", "value set a x", "value delete a",
	} {
		all[command] = start(t, url, strings.Fields(command)...)
	}
	for command, c := range all {
		c.says("the backend does not answer")
		c.ends(exitUnreachable, patience+soon)
		if text := c.stderr(); !strings.Contains(text, "gave up") {
			t.Errorf("%s says %q", command, text)
		}
	}
	watch.says("the backend does not answer")
	p.LoseRequests(0, nil)
	watch.says("the backend answers again")
	_ = watch.Process.Signal(syscall.SIGTERM)
	watch.ends(exitSignal+int(syscall.SIGTERM), soon)
}

// Promise: the time of -w begins with the command, not when the backend has been opened.
func TestTheOpeningIsPartOfTheWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locks.db")
	url := "sqlite:" + path + "?ttl=1m"
	holds(t, url, "a")
	turn := errtest.Must(flock.Open(t.Context(), path+"-interlock/turn"))(t) // nobody can open the file
	defer turn.Close()
	st := errtest.Must(turn.Stat())(t)
	const wait = 6 * time.Second
	c := start(t, url, "run", "-v", "-w", fmt.Sprint(wait), "a", "--", "true")
	inode := fmt.Sprintf(":%d ", st.Sys().(*syscall.Stat_t).Ino)
	c.until("it waits to open the file", func() bool {
		locks, err := os.ReadFile("/proc/locks")
		for line := range strings.Lines(string(locks)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, inode) {
				return true
			}
		}
		return err != nil
	})
	time.Sleep(wait * 2 / 3)
	errtest.None(t, turn.Close())
	c.says("backend sqlite:")
	opened := time.Now()
	c.ends(exitBusy, soon)
	if waited := time.Since(opened); waited >= wait {
		t.Errorf("after the opening it waited for %v more, with -w %v: %s", waited, wait, c.stderr())
	}
}
