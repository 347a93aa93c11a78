package quorumlock_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/backend/quorumlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
)

const ttl = 10 * time.Second

func request() driver.Request {
	var b [16]byte
	rand.Read(b[:])
	return driver.Request{ID: hex.EncodeToString(b[:]), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1, NoWait: true}
}

// quorum is a driver over worlds. It returns its drivers of them, too.
func quorum(t *testing.T, worlds ...*memlock.World) (*quorumlock.Driver, []*memlock.Driver) {
	t.Helper()
	var members []*memlock.Driver
	var all []driver.Driver
	for _, w := range worlds {
		members = append(members, w.Driver())
		all = append(all, members[len(members)-1])
	}
	return over(t, all...), members
}

// over is a quorum of these members.
func over(t *testing.T, members ...driver.Driver) *quorumlock.Driver {
	t.Helper()
	d := errtest.Must(quorumlock.New(members...))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// client opens a session of a quorum of worlds, and returns its drivers of them.
func client(t *testing.T, worlds ...*memlock.World) (*driver.Opened, []*memlock.Driver) {
	t.Helper()
	d, members := quorum(t, worlds...)
	return session(t, d), members
}

func session(t *testing.T, d driver.Driver) *driver.Opened {
	t.Helper()
	s := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: ttl}))(t)
	return s
}

func hold(t *testing.T, s *driver.Opened) driver.Ticket {
	t.Helper()
	tk, err := s.Join(t.Context(), request())
	if err != nil || !tk.Held {
		t.Fatalf("Join: %+v, %v", tk, err)
	}
	return tk
}

// fresh are worlds that count.
func fresh(t *testing.T, n int) (worlds []*memlock.World) {
	t.Helper()
	for range n {
		worlds = append(worlds, memlock.NewWorld())
	}
	s, _ := client(t, worlds...)
	time.Sleep(ttl + time.Second)
	errtest.None(t, s.Close(t.Context()))
	return worlds
}

// sortByLife puts worlds in the order in which clients wait at them.
func sortByLife(t *testing.T, worlds []*memlock.World) {
	t.Helper()
	life := func(w *memlock.World) string {
		d := w.Driver()
		defer d.Close()
		c := errtest.Must(d.Load(t.Context(), "interlock-quorum/life/value"))(t)
		return string(c.Value)
	}
	slices.SortFunc(worlds, func(a, b *memlock.World) int { return strings.Compare(life(a), life(b)) })
}

// three is a test with three worlds that count, in the order in which clients wait at them.
func three(t *testing.T, f func(t *testing.T, w []*memlock.World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := fresh(t, 3)
		sortByLife(t, w)
		f(t, w)
	})
}

// keptOut makes sure that a try does not hold.
func keptOut(t *testing.T, s driver.Session) {
	t.Helper()
	if tk, err := s.Join(t.Context(), request()); err == nil {
		t.Fatalf("it is held a second time: %+v", tk)
	}
}

// is makes sure of what a heartbeat says of a ticket.
func is(t *testing.T, s driver.Session, tk driver.Ticket, want driver.State, when string) {
	t.Helper()
	if r, err := s.Renew(t.Context(), []driver.Ticket{tk}); err != nil || len(r) != 1 || r[0].State != want {
		t.Fatalf("Renew %s: %+v, %v", when, r, err)
	}
}

// Promise: a member that has lost its data does not help another to a lock that is held, for a TTL.
func TestAnEmptyMemberDoesNotCount(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		a, members := client(t, w...)
		members[0].Faults().Cut() // so that the holder has the last two
		held := hold(t, a)
		b, _ := client(t, w[0], w[1], memlock.NewWorld())
		for range 5 {
			keptOut(t, b)
			time.Sleep(ttl / 6)
		}
		time.Sleep(ttl)
		if tk := hold(t, b); tk.Token <= held.Token {
			t.Errorf("the token %d follows %d", tk.Token, held.Token)
		}
	})
}

// Promise: a member that has lost its data does not count for the longest TTL of all clients, also if one of a shorter
// TTL, which cannot reach the others, is the first to see it.
func TestAShorterTTLDoesNotMakeAnEmptyMemberCountSooner(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		a, members := client(t, w...)
		members[0].Faults().Cut() // so that the holder has the last two
		hold(t, a)
		empty := memlock.NewWorld()
		cut := []*memlock.Driver{w[0].Driver(), w[1].Driver()}
		for _, m := range cut {
			m.Faults().Cut()
		}
		short := errtest.Must(quorumlock.New(cut[0], cut[1], empty.Driver()))(t)
		if _, err := short.Open(t.Context(), driver.SessionOptions{TTL: ttl / 10}); err == nil {
			t.Fatal("a session is open without a majority")
		}
		errtest.None(t, short.Close())
		time.Sleep(ttl / 5)
		b, _ := client(t, w[0], w[1], empty)
		keptOut(t, b)
		time.Sleep(ttl + time.Second)
		hold(t, b)
	})
}

// Promise: a new quorum says why it does not count, and for how long.
func TestANewQuorumSaysWhenItCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := client(t, memlock.NewWorld(), memlock.NewWorld(), memlock.NewWorld())
		_, err := s.Join(t.Context(), request())
		if err == nil || driver.IsPermanent(err) || errors.Is(err, driver.ErrBusy) {
			t.Fatalf("Join: %v", err)
		}
		time.Sleep(ttl + time.Second)
		hold(t, s)
	})
}

// Promise: a minority grants nothing.
func TestAMinorityGrantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, members := client(t, fresh(t, 3)...)
		members[0].Faults().Cut()
		members[1].Faults().Cut()
		if tk, err := s.Join(t.Context(), request()); err == nil || driver.IsPermanent(err) {
			t.Fatalf("Join: %+v, %v", tk, err)
		}
	})
}

// forgetful is a member that loses its data while sessions go on, as those of Redis do.
type forgetful struct {
	driver.Driver
	empty driver.Driver
	lost  atomic.Bool
}

func (f *forgetful) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	at, err := f.Driver.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	empty, err := f.empty.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	at.Session = &forgetfulSession{at.Session, empty, f}
	return at, nil
}

// now is the driver that answers.
func (f *forgetful) now() driver.Driver {
	if f.lost.Load() {
		return f.empty
	}
	return f.Driver
}

func (f *forgetful) Load(ctx context.Context, name string) (driver.Cell, error) {
	return f.now().Load(ctx, name)
}

func (f *forgetful) Swap(ctx context.Context, c driver.Swap) (driver.Cell, error) {
	return f.now().Swap(ctx, c)
}

type forgetfulSession struct {
	driver.Session
	empty driver.Session
	f     *forgetful
}

func (s *forgetfulSession) now() driver.Session {
	if s.f.lost.Load() {
		return s.empty
	}
	return s.Session
}

func (s *forgetfulSession) Join(ctx context.Context, r driver.Request) (driver.Ticket, error) {
	return s.now().Join(ctx, r)
}

func (s *forgetfulSession) Await(ctx context.Context, t driver.Ticket) (driver.Ticket, error) {
	return s.now().Await(ctx, t)
}

func (s *forgetfulSession) Leave(ctx context.Context, t driver.Ticket, clean bool) error {
	return s.now().Leave(ctx, t, clean)
}

func (s *forgetfulSession) Renew(ctx context.Context, known []driver.Ticket) ([]driver.Renewed, error) {
	return s.now().Renew(ctx, known)
}

// Promise: a member that has lost its data does not help another to a lock that is held, also if it is asked for a
// place that has waited there.
func TestAPlaceThatIsJoinedAgainAtAnEmptyMemberDoesNotCount(t *testing.T) {
	three(t, func(t *testing.T, w []*memlock.World) {
		a, members := client(t, w...)
		members[2].Faults().Cut() // so that the holder has the first two
		hold(t, a)
		line := &forgetful{Driver: w[0].Driver(), empty: memlock.NewWorld().Driver()}
		defer line.empty.Close()
		b := session(t, over(t, line, w[1].Driver(), w[2].Driver()))
		r := request()
		r.NoWait = false
		if tk, err := b.Join(t.Context(), r); err != nil || tk.Held {
			t.Fatalf("Join: %+v, %v", tk, err)
		}
		line.lost.Store(true)
		r.Retry = true
		_, _ = b.Join(t.Context(), r)
		ctx, cancel := context.WithTimeout(t.Context(), ttl/2)
		defer cancel()
		if tk, err := b.Await(ctx, driver.Ticket{ID: r.ID, Queue: r.Queue}); err == nil {
			t.Fatalf("it is held a second time: %+v", tk)
		}
	})
}

// Promise: two members, which could lose none, are refused, and closed.
func TestTwoMembersAreNoQuorum(t *testing.T) {
	a, b := memlock.NewWorld().Driver(), memlock.NewWorld().Driver()
	if _, err := quorumlock.New(a, b); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("New: %v", err)
	}
	for _, d := range []driver.Driver{a, b} {
		if _, err := d.Open(t.Context(), driver.SessionOptions{TTL: ttl}); err == nil {
			t.Errorf("a member is open")
		}
	}
}
