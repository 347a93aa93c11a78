package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/redistest"
)

// waits are calls that wait, until something happens that others do.
type waits struct {
	t       *testing.T
	results chan error
	n       int
}

// wait begins to wait with a driver for a change of a cell that was never set, and of a
// queue that is empty.
func wait(t *testing.T, d driver.Driver) *waits {
	w := &waits{t: t, results: make(chan error, 8)}
	w.begin(func(ctx context.Context) error {
		c, err := d.Watch(ctx, "c", 0)
		if err == nil && string(c.Value) != "v" {
			err = errors.New("Watch returned another cell")
		}
		return err
	})
	q, err := d.Follow(t.Context(), "q", "")
	if err != nil {
		t.Fatal(err)
	}
	w.begin(func(ctx context.Context) error {
		got, err := d.Follow(ctx, "q", q.Version)
		if err == nil && len(got.Members) != 1 {
			err = errors.New("Follow returned another queue")
		}
		return err
	})
	time.Sleep(50 * time.Millisecond) // so that they wait; if not, the test is easier to pass
	return w
}

func (w *waits) begin(call func(ctx context.Context) error) {
	w.n++
	go func() { w.results <- call(w.t.Context()) }()
}

// goOn makes sure that none has returned.
func (w *waits) goOn() {
	w.t.Helper()
	select {
	case err := <-w.results:
		w.t.Fatalf("a call that waits has returned: %v", err)
	default:
	}
}

// end does what they wait for.
func (w *waits) end(s *driver.Opened, d driver.Driver) {
	w.t.Helper()
	w.goOn()
	r := exclusive("q")
	swap := driver.Swap{ID: exclusive("").ID, Name: "c", Value: []byte("v")}
	try := func(call func() error) {
		w.t.Helper()
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			err := call()
			if err == nil {
				return
			}
			if time.Since(began) > 30*time.Second {
				w.t.Fatal(err)
			}
		}
	}
	try(func() error { _, err := s.Join(w.t.Context(), r); r.Retry = true; return err })
	try(func() error { _, err := d.Swap(w.t.Context(), swap); return err })
	for range w.n {
		select {
		case err := <-w.results:
			if err != nil {
				w.t.Errorf("a call that waited: %v", err)
			}
		case <-time.After(busy.Bound(30 * time.Second)):
			w.t.Fatal("a call still waits for what has happened")
		}
	}
}

// Promise: a call that waits goes on when connections are lost, and sees what happens
// later.
func TestWaitsOutlastLostConnections(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	d, a := session(t, "redis://"+p.Addr, 10*time.Second)
	db, b := session(t, s.URL(), 10*time.Second)
	held, err := b.Join(t.Context(), exclusive("other"))
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := a.Join(t.Context(), exclusive("other"))
	if err != nil {
		t.Fatal(err)
	}
	w := wait(t, d)
	w.begin(func(ctx context.Context) error {
		got, err := a.Await(ctx, waiting)
		if err == nil && !got.Held {
			err = errors.New("Await returned a ticket that is not held")
		}
		return err
	})
	for range 5 {
		p.Cut()
		time.Sleep(20 * time.Millisecond)
	}
	p.Refuse(true)
	p.Cut()
	time.Sleep(200 * time.Millisecond)
	w.goOn()
	p.Refuse(false)
	if err := b.Leave(t.Context(), held, true); err != nil {
		t.Fatal(err)
	}
	w.end(b, db)
}

// Promise: a call that waits goes on when the server restarts, and sees what happens
// later; so does one that begins while the server is away.
func TestWaitsOutlastARestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, _ := session(t, s.URL(), 10*time.Second)
	db, b := session(t, s.URL(), 10*time.Second)
	w := wait(t, d)
	s.Kill()
	w.begin(func(ctx context.Context) error { _, err := d.Watch(ctx, "c", 0); return err })
	w.begin(func(ctx context.Context) error { _, err := d.Follow(ctx, "q", "empty"); return err })
	time.Sleep(100 * time.Millisecond)
	w.goOn()
	s.Restart()
	w.end(b, db)
}

// Promise: the end of a context ends its own call at once, though the server does not
// answer, and no call on another connection, such as a heartbeat.
func TestTheEndOfAContextLeavesHeartbeatsAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	// With a deadline, always, a single caller reads its answer itself.
	long, cancel := context.WithTimeout(t.Context(), busy.Bound(5*time.Minute))
	defer cancel()
	d, err := openURL(long, s.URL()+"?"+patient)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a, err := d.Open(long, driver.SessionOptions{TTL: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	tk, err := a.Join(long, exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	s.Pause()
	defer s.Resume()
	renewed := make(chan error, 1)
	go func() { // the first one, so that its connection is new
		_, err := a.Renew(long, []driver.Ticket{tk})
		renewed <- err
	}()
	time.Sleep(50 * time.Millisecond) // so that it is under way; if not, the test is easier to pass
	ctx, cancel := context.WithCancel(long)
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	if _, err := d.Load(ctx, "c"); !errors.Is(err, context.Canceled) {
		t.Errorf("Load: %v", err)
	}
	inTime(t, "Load with a context that ended after 50ms", began, nil)
	s.Resume()
	if err := received(t, "Renew", renewed); err != nil {
		t.Errorf("Renew beside a call whose context has ended: %v", err)
	}
}
