package redislock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: a call returns with its context, or when its driver is closed, though the server does not answer: also if it
// has to connect first, if another call does, and if a connection is given back.
func TestCallsReturnThoughTheServerHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := s.URL() + "?" + patient
	join := func(ctx context.Context, a *driver.Opened) error {
		_, err := a.Join(ctx, exclusive(newID()))
		return err
	}
	warmed := func(t *testing.T) *driver.Opened {
		_, a := session(t, url, 10*time.Minute)
		warm(t, a)
		s.KillConnections("normal")
		return a
	}
	own := func(t *testing.T) driver.Driver {
		client := errtest.Must(rueidis.NewClient(patientOption(s)))(t)
		t.Cleanup(client.Close)
		d := errtest.Must(redislock.New(t.Context(), client))(t)
		return d
	}
	for name, begin := range map[string]func(t *testing.T) func(context.Context) error{
		"Acquire": func(t *testing.T) func(context.Context) error {
			c := opener(t, url, interlock.TTL(10*time.Minute))()
			release(t, acquire(t, c.Mutex("warm")))
			return func(ctx context.Context) error { _, err := c.Mutex("q").Acquire(ctx); return err }
		},
		"a Renew that connects": func(t *testing.T) func(context.Context) error {
			_, a := session(t, url, 10*time.Minute)
			tk := errtest.Must(a.Join(t.Context(), exclusive(newID())))(t)
			return func(ctx context.Context) error { _, err := a.Renew(ctx, []driver.Ticket{tk}); return err }
		},
		"a Renew while a connection is given back": func(t *testing.T) func(context.Context) error {
			d, a := session(t, url, 10*time.Minute)
			_, b := session(t, s.URL(), 10*time.Second)
			x, queue := &demand{t: t}, newID()
			x.join(b, exclusive(queue))
			tk, before := x.join(a, exclusive(queue)), d.Exchanges()
			s.KillConnections("pubsub")
			busy.Until(t, "it looks for news that were lost", func() bool { return d.Exchanges() > before })
			time.Sleep(200 * time.Millisecond)
			return func(ctx context.Context) error { _, err := a.Renew(ctx, []driver.Ticket{tk}); return err }
		},
		"a Join that connects": func(t *testing.T) func(context.Context) error {
			a := warmed(t)
			return func(ctx context.Context) error { return join(ctx, a) }
		},
		"a Join while another one connects": func(t *testing.T) func(context.Context) error {
			a := warmed(t)
			return func(ctx context.Context) error {
				go func() { _ = join(t.Context(), a) }()
				time.Sleep(200 * time.Millisecond)
				return join(ctx, a)
			}
		},
		"a Join over a connection that many have shared": func(t *testing.T) func(context.Context) error {
			_, a := session(t, url, 10*time.Minute)
			var all sync.WaitGroup
			for range 64 {
				all.Go(func() { errtest.None(t, join(t.Context(), a)) })
			}
			all.Wait()
			return func(ctx context.Context) error { return join(ctx, a) }
		},
		"opening": func(*testing.T) func(context.Context) error {
			return func(ctx context.Context) error {
				d, err := openURL(ctx, url)
				if err == nil {
					d.Close()
				}
				return err
			}
		},
		"Close": func(t *testing.T) func(context.Context) error {
			d := own(t)
			s.KillConnections("pubsub") // it is just being made anew
			return func(context.Context) error { time.Sleep(100 * time.Millisecond); return d.Close() }
		},
		"a Join that Close ends": func(t *testing.T) func(context.Context) error {
			d := own(t)
			a := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: 10 * time.Second}))(t)
			warm(t, a)
			return func(context.Context) error {
				done := make(chan error, 1)
				go func() { done <- join(t.Context(), a) }()
				time.Sleep(100 * time.Millisecond)
				_ = d.Close()
				return <-done
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			call := begin(t)
			s.Pause()
			defer s.Resume()
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- call(ctx) }()
			select {
			case err := <-done:
				if (err == nil) != (name == "Close") {
					t.Errorf("the server does not answer: %v", err)
				}
			case <-time.After(soon):
				t.Fatalf("it has not returned after %v", soon)
			}
		})
	}
}

// Promise: the end of a context ends its own call at once, though the server does not
// answer, and no call on another connection, such as a heartbeat.
func TestTheEndOfAContextLeavesHeartbeatsAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	// With a deadline, always, a single caller reads its answer itself.
	long, cancel := context.WithTimeout(t.Context(), busy.Bound(5*time.Minute))
	defer cancel()
	d := errtest.Must(openURL(long, s.URL()+"?"+patient))(t)
	defer d.Close()
	a := errtest.Must(d.Open(long, driver.SessionOptions{TTL: 10 * time.Minute}))(t)
	tk := errtest.Must(a.Join(long, exclusive("q")))(t)
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
	errtest.Is(t, errtest.Received(t, "Renew", renewed), nil, "Renew beside a call whose context has ended")
}

// Promise: a call that waits goes on when connections are lost and the server restarts, and sees what happens
// later; so does one that begins while the server is away.
func TestWaitsOutlastARestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, _ := session(t, s.URL(), 10*time.Second)
	db, b := session(t, s.URL(), 10*time.Second)
	q := errtest.Must(d.Follow(t.Context(), "q", ""))(t)
	results := make(chan error, 4)
	wait := func() {
		go func() {
			c, err := d.Watch(t.Context(), "c", 0)
			if err == nil && string(c.Value) != "v" {
				err = errors.New("Watch returned another cell")
			}
			results <- err
		}()
		go func() {
			q, err := d.Follow(t.Context(), "q", q.Version)
			if err == nil && len(q.Members) != 1 {
				err = errors.New("Follow returned another queue")
			}
			results <- err
		}()
		time.Sleep(50 * time.Millisecond) // so that they wait; if not, the test is easier to pass
	}
	wait()
	s.KillConnections("normal")
	s.KillConnections("pubsub")
	s.Kill()
	wait()
	select {
	case err := <-results:
		t.Fatalf("a call that waits has returned: %v", err)
	default:
	}
	s.Restart()
	r, swap := exclusive("q"), driver.Swap{ID: newID(), Name: "c", Value: []byte("v")}
	busy.Until(t, "the server is found again", func() bool { _, err := b.Join(t.Context(), r); r.Retry = true; return err == nil })
	busy.Until(t, "the server is found again", func() bool { _, err := db.Swap(t.Context(), swap); return err == nil })
	for range cap(results) {
		errtest.Is(t, errtest.Received(t, "a call that waits for what has happened", results), nil)
	}
}
