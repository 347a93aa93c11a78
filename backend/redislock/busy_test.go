package redislock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: a server that has been running somebody's script for so long that it refuses
// everything (BUSY) ends no program: heartbeats fail, news are listened for again and
// again, and when the script is over all goes on.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	do(t, s, "CONFIG", "SET", "lua-time-limit", "1")
	_, sess := session(t, "redis://"+p.Addr, time.Hour)
	_, other := session(t, s.URL(), time.Hour)
	warm(t, sess)
	held, err := sess.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	renew := func(ctx context.Context) error {
		_, err := sess.Renew(ctx, []driver.Ticket{held})
		return err
	}

	script := make(chan error, 1)
	go func() {
		_, err := s.Do("EVAL", "while true do end", "0")
		script <- err
	}()
	busy := func() (bool, error) {
		_, err := s.Do("PING")
		return err != nil && strings.Contains(err.Error(), "BUSY"), nil
	}
	if err := testserver.Until(busy); err != nil {
		t.Fatal(err)
	}
	var listens atomic.Int64
	p.LoseRepliesTo(func(request []string) bool { // it only looks
		if strings.EqualFold(request[0], "SUBSCRIBE") {
			listens.Add(1)
		}
		return false
	})
	bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		p.Cut()
		for _, ctx := range []context.Context{bounded, t.Context()} {
			if err := renew(ctx); err == nil {
				t.Error("renewed by a busy server")
			}
		}
		before := listens.Load()
		if err := testserver.Until(func() (bool, error) { return listens.Load() >= before+2, nil }); err != nil {
			t.Fatal("nobody listens any more: ", err)
		}
	}
	if d, err := openURL(t.Context(), s.URL()); err == nil {
		d.Close()
		t.Error("opened on a busy server")
	}
	do(t, s, "SCRIPT", "KILL")
	received(t, "the script that was killed", script)

	if err := renew(bounded); err != nil {
		t.Error("Renew after the script has ended: ", err)
	}
	waits, err := other.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	if err := sess.Leave(t.Context(), held, true); err != nil {
		t.Error("Leave after the script has ended: ", err)
	}
	awaited(t, other, waits)
}
