//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: a cycle of three processes and three locks on two backends is named within seconds, with the
// owners and what to evict; half of the backends show none.
func TestACycleOfThreeProcessesOnTwoBackendsIsNamed(t *testing.T) {
	t.Parallel()
	redis, pg, dir := redistest.Start(t).URL()+"?ttl=15s", pgtest.Start(t).URL()+"&ttl=15s", t.TempDir()
	backends := map[string]string{"a": redis, "b": pg, "c": redis}
	var all []*started
	for i, has := range []string{"a", "b", "c"} {
		wants := string("bca"[i])
		all = append(all, start(t, backends[has], "run", "--note", "has-"+has, has, "--", "sh", "-c", fmt.Sprintf(
			`touch %[1]s/%[2]s; until test -e %[1]s/go; do sleep 0.02; done; exec interlock run --url '%[3]s' --note wants-%[4]s %[4]s -- true`, dir, has, backends[wants], wants)))
	}
	for i, has := range []string{"a", "b", "c"} {
		all[i].until("job "+has, func() bool { _, err := os.Stat(filepath.Join(dir, has)); return err == nil })
	}
	must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	begun := time.Now()
	look := func(urls ...string) (found []deadlockJSON, status int) {
		t.Helper()
		args := []string{"doctor", "--deadlocks", "--json"}
		for _, url := range urls {
			args = append(args, "--url", url)
		}
		c := cli(t, redis, args...)
		out, _ := c.Output()
		if err := json.Unmarshal(out, &found); err != nil {
			t.Fatalf("it says %q: %v; %v", out, err, c.Stderr)
		}
		return found, c.ProcessState.ExitCode()
	}
	var found []deadlockJSON
	busy.Until(t, "the deadlock is named", func() bool {
		var status int
		found, status = look(redis, pg)
		if status != 0 && status != exitDeadlock || status == 0 != (len(found) == 0) {
			t.Fatalf("exit status %d of %v", status, found)
		}
		return len(found) > 0
	})
	t.Logf("named after %v", time.Since(begun).Round(time.Millisecond))
	if len(found) != 1 || len(found[0].Waits) != 3 {
		t.Fatalf("found %v", found)
	}
	for i, w := range found[0].Waits {
		has := found[0].Waits[(i+2)%3].Name // the one before waits for what this one has
		if w.Note != "wants-"+w.Name || w.By.Note != "has-"+w.Name || w.By.Token == 0 || w.Owner == "" || strings.Index("abc", w.Name) != (strings.Index("abc", has)+1)%3 {
			t.Errorf("wait %d is %+v", i, w)
		}
	}
	for _, half := range []string{redis, pg} {
		if found, _ := look(half); len(found) > 0 {
			t.Errorf("with one backend alone: %v", found)
		}
	}
	last := found[0].Waits[2]
	if c := cli(t, backends[last.Name], "evict", last.Name, last.By.ID); c.Run() != nil {
		t.Fatalf("evict: %v", c.Stderr)
	}
	if n := done(all); n != 2 {
		t.Errorf("%d jobs were done after one lock was evicted", n)
	}
	if found, status := look(redis, pg); len(found) > 0 || status != 0 {
		t.Errorf("at the end: %v", found)
	}
}

// done waits until all have ended, and counts those that have succeeded.
func done(all []*started) (n int) {
	for _, s := range all {
		<-s.over
		if s.ProcessState.ExitCode() == 0 {
			n++
		}
	}
	return n
}

// Promise: of two programs with different prefixes in one deadlock, each lock is named as one of the URLs can name it,
// with the backend's URL, and what to do about it helps; a lock that none can name has its whole name.
func TestADeadlockOfTwoPrefixesIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := "sqlite://" + dir + "/locks.db"
	with := func(prefix string) string { return whole + "?prefix=" + prefix + "%2F" }
	crossed := func(has, wants, hasURL, wantsURL string) *started {
		return start(t, hasURL, "run", has, "--", "sh", "-c", fmt.Sprintf(
			`touch %[1]s/%[2]s; until test -e %[1]s/%[4]s; do sleep 0.02; done; exec interlock run --url '%[3]s' %[4]s -- true`, dir, has, wantsURL, wants))
	}
	both := []*started{crossed("a", "b", with("p"), with("q")), crossed("b", "a", with("q"), with("p"))}
	look := func(urls []string, more ...string) (out []byte, found bool) {
		t.Helper()
		args := append([]string{"doctor", "--deadlocks"}, more...)
		for _, url := range urls {
			args = append(args, "--url", url)
		}
		var text bytes.Buffer
		root := newRoot()
		root.SetOut(&text)
		root.SetArgs(args)
		err := root.ExecuteContext(t.Context())
		var exit *exitError
		if found = errors.As(err, &exit) && exit.code == exitDeadlock; err != nil && !found {
			t.Fatalf("%v: %v", urls, err)
		}
		return text.Bytes(), found
	}
	busy.Until(t, "the deadlock is named", func() bool {
		_, found := look([]string{whole})
		return found
	})
	type named struct {
		name, backend string
		outside       bool
	}
	for _, c := range []struct {
		urls   []string
		a, b   named
		remedy string // of these
	}{
		{[]string{with("p")}, named{"a", with("p"), false}, named{"q/b", with("p"), true}, ", with INTERLOCK_URL for " + with("p") + ": interlock evict a "},
		{[]string{with("q")}, named{"p/a", with("q"), true}, named{"b", with("q"), false}, ""},
		{[]string{with("p"), with("q")}, named{"a", with("p"), false}, named{"b", with("q"), false}, ""},
		{[]string{whole}, named{"p/a", whole, false}, named{"q/b", whole, false}, ""},
		{[]string{with("r")}, named{"p/a", with("r"), true}, named{"q/b", with("r"), true}, ", with a URL without prefix=: interlock evict "},
	} {
		var found []deadlockJSON
		out, _ := look(c.urls, "--json")
		if err := json.Unmarshal(out, &found); err != nil || len(found) != 1 || len(found[0].Waits) != 2 {
			t.Fatalf("%v: %s", c.urls, out)
		}
		for _, w := range found[0].Waits {
			want := c.a
			if strings.HasSuffix(w.Name, "b") {
				want = c.b
			}
			if got := (named{w.Name, w.Backend, w.Outside}); got != want {
				t.Errorf("%v: %v, want %v", c.urls, got, want)
			}
		}
		if c.remedy == "" {
			continue
		}
		if text, _ := look(c.urls); !strings.Contains(string(text), c.remedy) {
			t.Errorf("%v: %s\nwant %q", c.urls, text, c.remedy)
		}
	}
	text, _ := look([]string{with("p"), with("q")})
	remedy := regexp.MustCompile(`with INTERLOCK_URL for (\S+): interlock evict ([ab]) ([0-9a-f]+)`).FindStringSubmatch(string(text))
	if remedy == nil {
		t.Fatalf("%s", text)
	}
	if c := cli(t, remedy[1], "evict", remedy[2], remedy[3]); c.Run() != nil {
		t.Fatalf("evict: %v", c.Stderr)
	}
	if n := done(both); n != 1 {
		t.Errorf("%d jobs were done after one lock was evicted", n)
	}
}

// workerVariable has the URLs of the backends for a process of the random run.
const workerVariable = "INTERLOCK_TEST_DEADLOCK_WORKER"

// randomRun is how long the random run lasts, such as 10m.
const randomRun = "DEADLOCK_RUN"

// deadlockWorker is such a process: its goroutines take locks in order or with bounds, readers and
// permits among them, so that they never wait for each other for ever. It lasts until it is killed.
//
// They nest what they hold, acquire it again, have others wait for them, and give it up while they wait.
func deadlockWorker() {
	urls := strings.Fields(os.Getenv(workerVariable))
	if len(urls) == 0 {
		return
	}
	ctx := context.Background()
	var clients []*interlock.Client
	for _, url := range urls {
		c, err := interlock.Open(ctx, url)
		must(err)
		clients = append(clients, c)
	}
	const locks = 8
	lock := func(i int, opts ...interlock.Option) *interlock.Lock {
		c, name := clients[i%len(clients)], fmt.Sprint("lock", i)
		switch {
		case i%4 < 2:
			return c.Mutex(name, opts...)
		case i%4 == 2:
			return c.Semaphore(name, 3, append(opts, interlock.Weight(1+rand.Int64N(3)))...)
		case rand.IntN(2) == 0:
			return c.RWMutex(name, opts...).Reader()
		}
		return c.RWMutex(name, opts...).Writer()
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				order := rand.Perm(locks)[:1+rand.IntN(4)]
				const (
					waits    = iota // for a while only
					fixed           // the first of its locks has a fixed end, and the others end with it
					all             // by All
					again           // the innermost lock once more
					together        // two goroutines wait for the innermost locks
					gives           // the first lock up while it waits for the next
					styles
				)
				style := rand.IntN(styles + 2) // else nothing of these
				if style != waits && style != fixed {
					slices.Sort(order)
				}
				if style == all {
					var all []*interlock.Lock
					for _, i := range order {
						all = append(all, lock(i))
					}
					_ = interlock.All(all...).Do(ctx, func(context.Context) error {
						time.Sleep(rand.N(500 * time.Millisecond))
						return nil
					})
					continue
				}
				var nest func(ctx context.Context, order []int, opts ...interlock.Option) error
				nest = func(ctx context.Context, order []int, opts ...interlock.Option) error {
					if len(order) == 0 {
						time.Sleep(rand.N(time.Second))
						return nil
					}
					switch {
					case style == waits:
						opts = append(opts, interlock.Wait(rand.N(4*time.Second)))
					case style == again:
						opts = append(opts, interlock.Reentrant())
					}
					l := lock(order[0], opts...)
					return l.Do(ctx, func(ctx context.Context) error {
						switch {
						case style == again && len(order) == 1:
							return l.Do(ctx, func(context.Context) error { return nil })
						case style == together && len(order) > 1:
							var both sync.WaitGroup
							for range 2 {
								both.Go(func() { _ = nest(ctx, order[1:]) })
							}
							both.Wait()
							return nil
						case style == gives && len(order) > 1:
							time.AfterFunc(rand.N(4*time.Second), func() { _ = interlock.LeaseFrom(ctx).Release() })
							return nest(context.WithoutCancel(ctx), order[1:])
						}
						return nest(ctx, order[1:])
					})
				}
				if style == fixed {
					_ = nest(ctx, order, interlock.ExpiresAfter(4*time.Second+rand.N(4*time.Second)))
					continue
				}
				_ = nest(ctx, order)
			}
		})
	}
	wg.Wait()
}

// Promise: there is no false alarm beside programs that are right, though some of them are killed, and
// each deadlock beside them is found.
func TestNoFalseAlarmInARandomRun(t *testing.T) {
	t.Parallel()
	length := 20 * time.Second
	if text := os.Getenv(randomRun); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	urls := []string{redistest.Start(t).URL() + "?ttl=4s", pgtest.Start(t).URL() + "&ttl=4s"}
	self, err := os.Executable()
	must(err)
	worker := func() *exec.Cmd {
		c := exec.Command(self)
		c.Env = append(os.Environ(), workerVariable+"="+strings.Join(urls, " "))
		c.Stderr = os.Stderr
		must(c.Start())
		return c
	}
	end := func(c *exec.Cmd) {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	workers := []*exec.Cmd{worker(), worker(), worker()}
	t.Cleanup(func() {
		for _, w := range workers {
			end(w)
		}
	})
	ctx := context.Background()
	open := func() (all []*interlock.Client) {
		for _, url := range urls {
			c, err := interlock.Open(ctx, url)
			must(err)
			t.Cleanup(func() { _ = c.Close() })
			all = append(all, c)
		}
		return all
	}
	lookers, one, two := open(), open(), open()
	looks, planted, kills := 0, 0, 0
	waits := 0 // that were seen
	// ours reports whether the planted deadlock is found; another one is a false alarm.
	ours := func() (found bool) {
		t.Helper()
		all := errtest.Must(interlock.Deadlocks(ctx, lookers...))(t)
		looks++
		for _, d := range all {
			for _, w := range d.Waits {
				if !strings.HasPrefix(w.Name, "planted") {
					t.Fatalf("false alarm: %v", d)
				}
			}
			found = true
		}
		return found
	}
	for begun := time.Now(); time.Since(begun) < length; {
		for range 10 {
			if ours() {
				t.Fatal("a deadlock is found that is over")
			}
			for _, c := range lookers {
				for q, err := range c.Admin().Queues(ctx, "lock") {
					errtest.None(t, err)
					waits += len(q.Waiters)
				}
			}
			time.Sleep(rand.N(200 * time.Millisecond))
		}
		if rand.IntN(3) == 0 {
			i := rand.IntN(len(workers))
			end(workers[i])
			workers[i] = worker()
			kills++
		}
		bad, cancel := context.WithCancel(ctx)
		var both, over sync.WaitGroup
		both.Add(2)
		cross := func(first, second *interlock.Lock) {
			over.Go(func() {
				_ = first.Do(bad, func(ctx context.Context) error {
					both.Done()
					both.Wait()
					return second.Do(ctx, func(context.Context) error { return nil })
				})
			})
		}
		cross(one[0].Mutex("planted/x"), one[1].Mutex("planted/y"))
		cross(two[1].Mutex("planted/y"), two[0].Mutex("planted/x"))
		busy.Until(t, "the planted deadlock is found", ours)
		planted++
		cancel()
		over.Wait()
	}
	t.Logf("%d looks, %d of which saw %d planted deadlocks; %d processes were killed; %d waiters were seen", looks, planted, planted, kills, waits)
	if waits == 0 {
		t.Error("nobody ever waited")
	}
}
