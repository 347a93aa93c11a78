//go:build unix

package sqlitelock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

// The TTLs here are an hour and nothing is renewed, so only what is said by the
// test's name can let the next one in.

func TestDeathIsNoticedByAnAttempt(t *testing.T) {
	path := file(t)
	p := newPuppet(t, path)
	p.must("open", "open", time.Hour)
	p.must("held", "join", "q")
	p.kill()
	s := session(t, open(t, path), time.Hour)
	r := mutex("q")
	r.NoWait = true
	join(t, s, r, true)
}

func TestDeathOfAWaiterIsNoticedAtOnce(t *testing.T) {
	path := file(t)
	s := session(t, open(t, path), time.Hour)
	front := join(t, s, mutex("q"), true)
	p := newPuppet(t, path)
	p.must("open", "open", time.Hour)
	p.must("waits", "join", "q")
	last := join(t, s, mutex("q"), false)
	p.kill()
	noError(t, s.Leave(t.Context(), front, true))
	await(t, s, last)
}

func TestOtherChildrenDoNotKeepTheSession(t *testing.T) {
	path := file(t)
	d := open(t, path)
	join(t, session(t, d, time.Hour), mutex("q"), true)
	child := newPuppet(t, file(t)) // started while the session's files are open
	child.must("open", "open", time.Hour)
	p := newPuppet(t, path)
	p.must("open", "open", time.Hour)
	p.must("waits", "join", "q")
	noError(t, d.Close())
	p.must("held", "await", "q")
	child.must("held", "join", "here")
}

func TestAStoppedWriter(t *testing.T) {
	for _, where := range []string{"stop-in-turn", "stop-in-transaction"} {
		t.Run(where, func(t *testing.T) {
			path := file(t)
			d := open(t, path)
			s := session(t, d, time.Hour)
			held := join(t, s, mutex("q"), true)
			p := newPuppet(t, path)
			p.must("open", "open", time.Hour)
			p.stop(where)

			for i := range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				_, err := s.Join(&begun{Context: ctx, end: cancel}, mutex("q"))
				cancel()
				if !errors.Is(err, context.Canceled) || driver.IsPermanent(err) {
					t.Fatalf("Join %d while a writer is stopped: %v", i, err)
				}
				who := fmt.Sprintf("process %d", p.cmd.Process.Pid)
				if blockersAreKnown && (!strings.Contains(err.Error(), who) || !strings.Contains(err.Error(), "stopped")) {
					t.Fatalf("the error does not say who keeps the file locked, %s: %v", who, err)
				}
			}
			if q, err := d.Follow(within(t), "q", ""); err != nil || len(q.Members) != 1 {
				t.Fatalf("reading waits for a writer: %+v, %v", q, err)
			}
			p.resume()
			if got := p.answer(); got != "resumed" {
				t.Fatal(got)
			}
			noError(t, s.Leave(within(t), held, true))
			join(t, s, mutex("q"), true)
		})
	}
}

// Promise: an error names the process that keeps the file locked, and not the one that waits for it in front.
func TestTheErrorNamesWhoIsWaitedFor(t *testing.T) {
	if !blockersAreKnown {
		t.Skip("this system does not tell who has locked a file")
	}
	path := file(t)
	s := session(t, open(t, path), time.Hour)
	waits, writer := newPuppet(t, path), newPuppet(t, path)
	waits.must("open", "open", time.Hour)
	writer.stop("stop-in-transaction")
	waits.send("join", "q")
	turn := errtest.Must(os.Open(path + "-interlock/turn"))(t)
	defer turn.Close()
	for end := within(t); syscall.Flock(int(turn.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil; time.Sleep(time.Millisecond) {
		noError(t, errors.Join(syscall.Flock(int(turn.Fd()), syscall.LOCK_UN), end.Err()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := s.Join(&begun{Context: ctx, end: cancel}, mutex("q"))
	is, not := fmt.Sprintf("process %d", writer.cmd.Process.Pid), fmt.Sprintf("process %d", waits.cmd.Process.Pid)
	if err == nil || !strings.Contains(err.Error(), is) || strings.Contains(err.Error(), not) {
		t.Errorf("%v; want %s, and not %s", err, is, not)
	}
	writer.resume()
	if got := waits.answer(); got != "held" {
		t.Error(got)
	}
}

// begun is a context that ends some time after a call has looked at it, so that the call
// has begun.
type begun struct {
	context.Context
	once sync.Once
	end  context.CancelFunc
}

func (c *begun) Err() error {
	err := c.Context.Err()
	c.once.Do(func() { time.AfterFunc(50*time.Millisecond, c.end) })
	return err
}

// A message that finds the socket full is not lost.
func TestAFullSocketIsServedLater(t *testing.T) {
	path := file(t)
	s := session(t, open(t, path), time.Hour)
	const many = 40 // a socket takes some ten messages on many systems
	var fronts []driver.Ticket
	p := newPuppet(t, path)
	p.must("open", "open", time.Hour)
	for i := range many {
		q := fmt.Sprint("q", i)
		fronts = append(fronts, join(t, s, mutex(q), true))
		p.must("waits", "join", q)
	}
	p.stop("stop")
	for _, f := range fronts {
		noError(t, s.Leave(t.Context(), f, true))
	}
	p.resume()
	if got := p.answer(); got != "resumed" {
		t.Fatal(got)
	}
	for i := range many {
		p.must("held", "await", fmt.Sprint("q", i))
	}
}

// Processes are killed at any instruction, again and again: no two ever hold at
// the same time, tokens grow, the others go on at once, and the file stays sound.
func TestKilledAtAnyInstruction(t *testing.T) {
	t.Parallel()
	kills := 100
	if testing.Short() {
		kills = 20
	}
	if n, err := strconv.Atoi(os.Getenv("SQLITELOCK_KILLS")); err == nil {
		kills = n
	}
	path, log := file(t), filepath.Join(t.TempDir(), "log")
	noError(t, os.WriteFile(log, nil, 0o600))
	start := func() *puppet {
		p := newPuppet(t, path)
		p.send("cycle", "q", log)
		return p
	}
	workers := []*puppet{start(), start(), start()}
	size := func() int64 {
		st := errtest.Must(os.Stat(log))(t)
		return st.Size()
	}
	for range kills {
		for before, end := size(), time.Now().Add(limit); size() < before+200; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the others do not go on")
			}
		}
		time.Sleep(rand.N(3 * time.Millisecond)) // any instruction is right
		i := rand.IntN(len(workers))
		workers[i].kill()
		workers[i] = start()
	}
	for _, w := range workers {
		w.kill()
	}
	grants := checkLog(t, log)
	for _, f := range open(t, path).Check(t.Context()) {
		if f.Status == driver.Fail {
			t.Errorf("after %d kills: %+v", kills, f)
		}
	}
	t.Logf("%d kills, %d grants", kills, grants)
}

// checkLog reads what holders in several processes have written: no two held at the same time, and
// tokens grew.
func checkLog(t *testing.T, log string) (grants int) {
	t.Helper()
	f := errtest.Must(os.Open(log))(t)
	defer f.Close()
	last, owner := uint64(0), ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var token uint64
		var pid, what string
		fmt.Sscan(lines.Text(), &token, &pid, &what)
		switch {
		case what != "begin" && what != "end": // half written: its writer was killed
		case what == "begin" && token <= last:
			t.Fatalf("the token %d after %d", token, last)
		case what == "begin": // the one before has ended, or was killed
			grants, last, owner = grants+1, token, pid
		case token != last || pid != owner:
			t.Fatalf("%s has the token %d, and then %s ends with %d", owner, last, pid, token)
		}
	}
	return grants
}
