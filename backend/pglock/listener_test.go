package pglock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: however many clients a process has, it listens on one connection, as long
// as one of them listens; each hears what is sent to it, and nothing after it has
// ended.
func TestClientsOfAProcessShareOneEar(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	dial := func(ctx context.Context) (*pgx.Conn, error) {
		return pgx.Connect(ctx, server.URL()+"&application_name=ear")
	}
	const many = 100
	type one struct {
		up, lost chan error
		heard    chan string
		end      context.CancelFunc
	}
	all := make([]one, many)
	for i := range all {
		ctx, end := context.WithCancel(t.Context())
		c := one{make(chan error, 1), make(chan error, 1), make(chan string, 10), end}
		go func() {
			c.lost <- listen(ctx, server.URL(), dial, func() time.Duration { return lookEvery }, channelOf(i), func(*pgx.Conn) {}, func() { c.up <- nil }, func(_ *pgx.Conn, _ uint32, text string) { c.heard <- text })
		}()
		all[i] = c
	}
	for _, c := range all {
		<-c.up
	}
	if n := len(server.Backends("application_name = 'ear'")); n != 1 {
		t.Errorf("%d connections", n)
	}
	for i := range all {
		server.SQL(fmt.Sprintf("NOTIFY %q, '%d'", channelOf(i), i))
		if got := <-all[i].heard; got != fmt.Sprint(i) {
			t.Errorf("%d has heard %q", i, got)
		}
		if i == many/2 {
			break
		}
	}
	for _, c := range all[1:] {
		c.end()
		errtest.Is(t, <-c.lost, context.Canceled)
	}
	server.SQL(fmt.Sprintf("NOTIFY %q, 'late'; NOTIFY %q, 'last'", channelOf(1), channelOf(0)))
	if got := <-all[0].heard; got != "last" {
		t.Errorf("heard %q", got)
	}
	select {
	case got := <-all[1].heard:
		t.Errorf("heard %q after the end", got)
	default:
	}
	// A lost connection is an error for everybody, and the next one makes another.
	server.Terminate("application_name = 'ear'")
	if err := <-all[0].lost; err == nil {
		t.Error("no error")
	}
	ctx, end := context.WithCancel(t.Context())
	up, lost := make(chan error, 1), make(chan error, 1)
	go func() {
		lost <- listen(ctx, server.URL(), dial, func() time.Duration { return lookEvery }, channelOf(0), func(*pgx.Conn) {}, func() { up <- nil }, func(*pgx.Conn, uint32, string) {})
	}()
	<-up
	end()
	<-lost
	busy.Until(t, "the connection ends", func() bool { return len(server.Backends("application_name = 'ear'")) == 0 })
}

func channelOf(i int) string { return fmt.Sprintf("channel_%d", i) }
