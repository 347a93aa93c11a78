package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: a NoWait ticket that is in the queue already, since a first Join had no answer,
// leaves if it is not held, and whoever it kept out gets the lock in the same exchange.
func TestARepetitionWithNoWaitLeavesNothing(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	db, b := session(t, s.URL(), time.Hour)
	_, a := session(t, "redis://"+p.Addr, time.Hour)
	warm(t, a)
	permits := func(units int64) driver.Request { // they have no short way, so one script is lost
		r := request("q", units, 3)
		r.Kind = driver.Semaphore
		return r
	}
	held, err := b.Join(t.Context(), permits(1))
	if err != nil || !held.Held {
		t.Fatal(held, err)
	}

	p.LoseReplies(1, "EVALSHA")
	all := permits(3)
	if _, err := a.Join(t.Context(), all); err == nil {
		t.Fatal("the reply was not lost")
	}
	behind, err := b.Join(t.Context(), permits(1))
	if err != nil || behind.Held {
		t.Fatal(behind, err)
	}
	all.NoWait, all.Retry = true, true
	if tk, err := a.Join(t.Context(), all); !errors.Is(err, driver.ErrBusy) {
		t.Fatalf("Join with NoWait of a ticket that waits: %+v, %v", tk, err)
	}
	q, err := db.Follow(t.Context(), "q", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Members) != 2 || q.Members[0].ID != held.ID || q.Members[1].ID != behind.ID || !q.Members[1].Held {
		t.Errorf("the queue is %+v", q.Members)
	}
}
