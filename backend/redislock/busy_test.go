package redislock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
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
	held := errtest.Must(sess.Join(t.Context(), exclusive("q")))(t)
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
	noError(t, testserver.Until(busy))
	var listens atomic.Int64
	subscribes := redistest.Command("SUBSCRIBE")
	p.Observe(func(m redistest.Message) {
		if !m.Reply && subscribes(m) {
			listens.Add(1)
		}
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
		errtest.MustBe(t, testserver.Until(func() (bool, error) { return listens.Load() >= before+2, nil }), nil, "nobody listens any more")
	}
	if d, err := openURL(t.Context(), s.URL()); err == nil {
		d.Close()
		t.Error("opened on a busy server")
	}
	do(t, s, "SCRIPT", "KILL")
	errtest.Received(t, "the script that was killed", script)

	errtest.Is(t, renew(bounded), nil, "Renew after the script has ended")
	waits := errtest.Must(other.Join(t.Context(), exclusive("q")))(t)
	left := func() (bool, error) { return sess.Leave(t.Context(), held, true) == nil, nil } // the first finds the connection cut
	errtest.MustBe(t, testserver.Until(left), nil, "Leave after the script has ended")
	awaited(t, other, waits)
}
