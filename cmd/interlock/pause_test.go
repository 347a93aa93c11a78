//go:build linux

package main

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: while a server grants nothing after a crash, a wait that gives up says that it is not available, and not
// that the lock is busy: also one that has begun before the crash.
func TestAPauseAfterACrashIsNoBusyLock(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (s server, url string, keep func()){
		"PostgreSQL": func(t *testing.T) (server, string, func()) { s := pgtest.Start(t); return s, s.URL(), func() {} },
		"MariaDB": func(t *testing.T) (server, string, func()) {
			s := mysqltest.Start(t, mysqltest.Lazy())
			return s, s.URL(), func() { // what was committed so far is not forgotten
				s.Do("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
				s.Do("UPDATE interlock_meta SET longest = longest + 1")
				s.Do("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url, keep := start(t)
			const ttl = 30 * time.Second // that is how long the pause is
			c, err := interlock.Open(t.Context(), url, interlock.TTL(ttl))
			errtest.None(t, err)
			defer c.Close()
			errtest.None(t, acquire(t, c.Mutex("x")))
			keep()
			before := startAll(t, url, "3s", "8s")
			s.Kill()
			crashed := time.Now()
			time.Sleep(time.Second / 2)
			s.Restart()
			rest := startAll(t, url, "300ms", "1s", "0")
			for _, wait := range append(before, rest...) {
				<-wait.over
				var exit *exec.ExitError
				if !errors.As(wait.err, &exit) || exit.ExitCode() != exitUnreachable {
					t.Errorf("%v after the crash %v ended with %v: %s", time.Since(crashed), wait.Args[1:], wait.err, wait.stderr())
				}
			}
			if time.Since(crashed) > ttl {
				t.Skip("the machine was too busy: the pause is over")
			}
		})
	}
}

// startAll starts waits of all kinds, for so long each.
func startAll(t *testing.T, url string, waits ...string) (all []*started) {
	for _, w := range waits {
		for _, args := range [][]string{{"x"}, {"free"}, {"-s", "rw"}} {
			all = append(all, start(t, url, append(append([]string{"run", "-w", w}, args...), "--", "true")...))
		}
	}
	return all
}
