//go:build linux

package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/answers"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
)

// file is a SQLite file, which goes away as long as another program writes to it.
type file struct {
	t    *testing.T
	conn *sql.Conn
}

func (f *file) exec(statement string) {
	f.t.Helper()
	if _, err := f.conn.ExecContext(context.Background(), statement); err != nil {
		f.t.Fatalf("%s: %v", statement, err)
	}
}

func (f *file) Pause()   { f.exec("BEGIN IMMEDIATE") }
func (f *file) Resume()  { f.exec("ROLLBACK") }
func (f *file) Kill()    { f.t.Fatal("a file does not die") }
func (f *file) Restart() { f.t.Fatal("a file does not die") }

// onEachBackend is onEachServer and SQLite.
func onEachBackend(t *testing.T, f func(t *testing.T, s server, url string)) {
	onEachServer(t, f)
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "locks.db")
		url := "sqlite:" + filepath.ToSlash(path) + "?"
		if err := cli(t, url, "value", "set", "v", "x").Run(); err != nil { // makes the file
			t.Fatal(err)
		}
		db := errtest.Must(sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?_pragma=busy_timeout(60000)"))(t)
		t.Cleanup(func() { _ = db.Close() })
		conn := errtest.Must(db.Conn(context.Background()))(t)
		t.Cleanup(func() { _ = conn.Close() })
		f(t, &file{t, conn}, url)
	})
}

// granted is the TTL that a backend grants for a job that asks for this one.
func granted(t *testing.T, url string, ttl time.Duration) time.Duration {
	t.Helper()
	c := start(t, url, "run", "-v", "--ttl", ttl.String(), "a", "--", "true")
	c.ends(0, soon)
	got := regexp.MustCompile(`TTL (\S+)`).FindStringSubmatch(c.stderr())
	if got == nil {
		t.Fatalf("it tells no TTL: %s", c.stderr())
	}
	d := errtest.Must(time.ParseDuration(got[1]))(t)
	return d
}

// measureStandstill returns a function that tells for how long, at most, a process of this
// machine got no processor since.
func measureStandstill(t *testing.T) (longest func() time.Duration) {
	var most atomic.Int64
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		const nap = 5 * time.Millisecond
		for {
			began := time.Now()
			select {
			case <-time.After(nap):
			case <-over:
				return
			}
			most.Store(max(most.Load(), int64(time.Since(began)-nap)))
		}
	}()
	t.Cleanup(func() { close(over); <-ended })
	return func() time.Duration { return time.Duration(most.Load()) }
}

// Promise: a healthy job is not ended, however short its TTL: not in several TTLs, and not by
// pauses of the backend of a fifth of the TTL, at any phase of the renewals.
func TestTheShortestTTLIsEnoughForALongJob(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, s server, url string) {
		ttl := granted(t, url, shortestTTL)
		length := 6 * ttl
		if testing.Short() {
			length = 4 * ttl
		}
		const jobs = 3
		var all [jobs]*started
		for i := range all {
			time.Sleep(ttl / 7) // the phases differ
			all[i] = start(t, url, "run", "--ttl", shortestTTL.String(), "job"+strconv.Itoa(i), "--",
				"sh", "-c", `sleep "$0"; exit "$1"`, strconv.FormatFloat(length.Seconds(), 'f', 3, 64), strconv.Itoa(3+i))
		}
		standstill := measureStandstill(t)
		slowest, _ := answers.Measure(t, url)
		var longest time.Duration
		for began := time.Now(); time.Since(began) < length; {
			time.Sleep(ttl * 27 / 20)
			paused := time.Now()
			s.Pause()
			time.Sleep(ttl / 5)
			s.Resume()
			longest = max(longest, time.Since(paused))
		}
		for i, c := range all {
			// A renewal wakes the client, the server, and the guard: each may stand still for so long.
			if stood, answered := standstill(), slowest(); max(longest+3*stood, answered) > ttl/4 {
				<-c.over
				t.Logf("a pause lasted %v, the machine stood still for %v, a change took %v; job %d ended with %v: %s", longest, stood, answered, i, c.err, c.stderr())
				continue
			}
			c.ends(3+i, soon)
		}
	})
}

// Promise: whoever is granted the lock does its work, also one that was stopped while it
// waited and has little of its first TTL left.
func TestAWaiterThatWasStoppedDoesItsWork(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, s server, url string) {
		ttl := granted(t, url, busy.Bound(shortestTTL).Round(time.Second))
		url += "ttl=" + ttl.String()
		for i, part := range []time.Duration{55, 65} {
			name := "a" + strconv.Itoa(i)
			holder := start(t, url, "run", name, "-c", `touch held; until test -e go; do sleep 0.01; done`)
			holder.has("held")
			waiter := start(t, url, "run", name, "-c", "exit 4")
			waits(t, url, name)
			_ = waiter.Process.Signal(syscall.SIGSTOP)
			stopped := time.Now()
			holder.touch("go")
			holder.ends(0, soon)
			time.Sleep(ttl*part/100 - time.Since(stopped))
			_ = waiter.Process.Signal(syscall.SIGCONT)
			waiter.ends(4, soon)
		}
	})
}
