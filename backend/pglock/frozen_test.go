package pglock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: a server that accepts connections and then says nothing any more costs who opens or closes a
// client, or examines it, no more than the time that they have given, and a second.
func TestAFrozenServerIsLeftInTime(t *testing.T) {
	t.Parallel()
	const limit = 500 * time.Millisecond
	inTime := func(what string, call func(context.Context)) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		began := time.Now()
		call(ctx)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s takes %v", what, took)
		}
	}
	url := "postgres://postgres@" + testserver.Answer(t, func(c net.Conn) {
		b := pgproto3.NewBackend(c, c)
		if _, err := b.ReceiveStartupMessage(); err != nil {
			return
		}
		b.Send(&pgproto3.AuthenticationOk{})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if b.Flush() == nil {
			_, _ = io.Copy(io.Discard, c)
		}
	}) + "/postgres?sslmode=disable"
	inTime("opening", func(ctx context.Context) {
		if _, err := openURL(ctx, url); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it opens: %v", err)
		}
	})
	inTime("examining", func(ctx context.Context) {
		if _, err := interlock.Check(ctx, url); err == nil {
			t.Error("it is examined")
		}
	})

	s := pgtest.Start(t)
	p := pgtest.NewProxy(t, s.Addr)
	d := opened(t, strings.Replace(s.URL(), s.Addr, p.Addr, 1))
	p.Hang()
	defer p.Resume()
	inTime("closing", func(ctx context.Context) {
		if _, err := d.Load(ctx, "a/value"); err == nil {
			t.Error("it answers")
		}
		noError(t, d.Close())
	})
}
