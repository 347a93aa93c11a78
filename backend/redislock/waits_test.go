package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

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
