package pglock_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// ways are how a server ends.
var ways = []struct {
	name  string
	crash bool
	do    func(*pgtest.Server)
}{
	{"killed backend", true, func(s *pgtest.Server) {
		for s.KillBackends("application_name = 'interlock' AND random() < 0.3") == 0 {
		}
	}},
	{"killed server", true, func(s *pgtest.Server) { s.Kill(); s.Restart() }},
	{"immediate stop", true, func(s *pgtest.Server) { quit(s); s.Restart() }},
	{"restart in order", false, func(s *pgtest.Server) { s.Restart() }},
}

func quit(s *pgtest.Server) {
	p, err := os.FindProcess(s.Pid())
	s.Check("find", err)
	s.Check("quit", p.Signal(syscall.SIGQUIT))
	for s.Alive() {
		time.Sleep(time.Millisecond)
	}
}

// Promise: however often a server under load loses a process, is killed, or is
// restarted, nobody holds beside another and no token falls; what is in unlogged tables
// comes back with a grace, for which nobody is granted anything; leases of a fixed
// time, values and raised floors are as they were; and all who wait are served.
// PGLOCK_CRASHES makes it longer.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{"unlogged", "logged"} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			crashes(t, durability == "unlogged")
		})
	}
}

func crashes(t *testing.T, unlogged bool) {
	const ttl = time.Second
	s := pgtest.Start(t, pgtest.Durable(), pgtest.Config("max_connections", "60"))
	url := s.URL() + "&durability=" + map[bool]string{true: "unlogged", false: "logged"}[unlogged]
	all := clients(t, 3, url, interlock.TTL(ttl))
	showTables(t, s)
	keep := newKept(t, all[0], all[1])
	var g grants
	load := startLoad(t, all, 2, g.note)
	count := scaled("PGLOCK_CRASHES", 1)
	for range count {
		for _, way := range ways {
			load.goesOn()
			time.Sleep(rand.N(100 * time.Millisecond))
			keep.change()
			began := time.Now()
			way.do(s)
			if unlogged && way.crash {
				g.checkGrace(t, s, began, ttl)
			}
			keep.check()
			if t.Failed() {
				t.Fatalf("after: %s", way.name)
			}
		}
	}
	load.goesOn()
	load.end()
	t.Logf("%d times each, %d grants", count, load.grants.Load())
}

// grants are those of the database: when somebody was told of each.
type grants struct {
	mu  sync.Mutex
	all map[uint64]time.Time
}

func (g *grants) note(token uint64, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = map[uint64]time.Time{}
	}
	g.all[token] = at
}

// checkGrace waits for the first grant after a crash that began then: leases of before
// last for a TTL from then on, at most.
func (g *grants) checkGrace(t *testing.T, s *pgtest.Server, began time.Time, ttl time.Duration) {
	t.Helper()
	var safe time.Time
	var floor uint64
	busy.Until(t, "somebody has noticed the crash", func() bool {
		us, of, found := strings.Cut(s.SQL("SELECT greatest(safe, (SELECT max(frozen) FROM interlock.queue)), floor FROM interlock.sentinel"), "|")
		if found {
			n, err := strconv.ParseInt(us, 10, 64)
			noError(t, err)
			safe = time.UnixMicro(n)
			floor = errtest.Must(strconv.ParseUint(of, 10, 64))(t)
		}
		return found
	})
	if safe.Sub(began) < ttl {
		t.Errorf("the grace ends %v after the crash, a lease of before lasts %v", safe.Sub(began), ttl)
	}
	after := 0
	busy.Until(t, "somebody is granted something", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for token, at := range g.all {
			if token > floor {
				after++
				if at.Before(safe) {
					t.Errorf("the token %d was granted %v before the grace had ended", token, safe.Sub(at))
				}
			}
		}
		clear(g.all)
		return after > 0
	})
}

// kept is what a crash must not change.
type kept struct {
	t      *testing.T
	c, o   *interlock.Client
	fixed  []*interlock.Lease
	value  *interlock.Value[int]
	set    int
	floor  uint64
	raised uint64 // the last token of the queue with the floor
}

func newKept(t *testing.T, c, other *interlock.Client) *kept {
	return &kept{t: t, c: c, o: other, value: interlock.NewValue[int](c, "kept/value"), floor: 1 << 61}
}

func (k *kept) change() {
	k.t.Helper()
	ctx := k.t.Context()
	i := len(k.fixed)
	l, err := k.c.Mutex(fmt.Sprint("kept/", i), interlock.ExpiresAfter(time.Hour)).Acquire(ctx)
	noError(k.t, err)
	k.fixed = append(k.fixed, l)
	k.set++
	_, err = k.value.Update(ctx, func(int) (int, error) { return k.set, nil })
	noError(k.t, err)
	if rand.IntN(2) == 0 {
		k.floor += 1 << 32
		noError(k.t, k.o.Admin().RaiseToken(ctx, "kept/raised", k.floor))
		if k.raised < k.floor {
			k.raised = k.floor
		}
	}
	k.grow()
	k.grow()
}

// grow takes the lock whose tokens have been raised.
func (k *kept) grow() {
	k.t.Helper()
	l, err := k.o.Mutex("kept/raised").Acquire(k.t.Context())
	noError(k.t, err)
	if l.Token() <= k.raised {
		k.t.Errorf("the token %d after %d", l.Token(), k.raised)
	}
	k.raised = l.Token()
	_ = l.Release() // a crash may be sooner
}

func (k *kept) check() {
	k.t.Helper()
	for range min(10, len(k.fixed)) {
		l := k.fixed[rand.IntN(len(k.fixed))]
		if l.Err() != nil {
			k.t.Errorf("%q, held for an hour: %v", l.Name(), l.Err())
		}
		got, err := k.o.Mutex(l.Name()).TryAcquire(k.t.Context())
		for end := time.Now().Add(busy.Bound(time.Minute)); err != nil && !errors.Is(err, interlock.ErrBusy) && time.Now().Before(end); {
			got, err = k.o.Mutex(l.Name()).TryAcquire(k.t.Context()) // a connection was lost, or a session is opened again
		}
		if !errors.Is(err, interlock.ErrBusy) {
			k.t.Errorf("%q is held with the token %d: %v %v", l.Name(), l.Token(), got, err)
		}
	}
	got, err := k.value.Get(k.t.Context())
	if err != nil || got.Value != k.set {
		k.t.Errorf("the value %d is %+v, %v", k.set, got, err)
	}
	k.grow()
}
