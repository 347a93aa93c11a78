package redislock_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// stamped is a connection that notes when a script was sent last.
type stamped struct {
	net.Conn
	sent *atomic.Int64
}

func (c stamped) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("EVAL")) {
		c.sent.Store(int64(driver.Now()))
	}
	return c.Conn.Write(b)
}

// Promise: a proof is a time before the script that it comes from was sent, whatever way
// it is got. The server may have run the script at once, and the answer be late.
func TestAProofIsFromBeforeTheRequest(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var last atomic.Int64
	client := errtest.Must(rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr}, DisableCache: true, PipelineMultiplex: -1,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			c, err := d.DialContext(ctx, "tcp", addr)
			return stamped{c, &last}, err
		},
	}))(t)
	defer client.Close()
	d := errtest.Must(redislock.New(t.Context(), client))(t)
	defer d.Close()
	a := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: time.Hour}))(t)
	_, b := session(t, s.URL(), time.Hour)

	sent := func() driver.Instant { return driver.Instant(last.Load()) }
	check := func(what string, proof, sent driver.Instant) {
		t.Helper()
		if proof == 0 || proof > sent {
			t.Errorf("%s: the proof is %v later than the script was sent", what, proof.Sub(sent))
		}
	}
	join := func(what string, r driver.Request) driver.Ticket {
		t.Helper()
		tk, err := a.Join(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if tk.Held {
			check(what, tk.Proof, sent())
		}
		return tk
	}
	again := func(what string, r driver.Request) {
		t.Helper()
		r.Retry = true
		join(what, r)
	}
	reader := func(queue string) driver.Request { return request(queue, 1, driver.RWCapacity) }

	r := exclusive("lone")
	tk := join("Join", r)
	check("Renew", renew(t, a, tk)[tk.ID].Proof, sent())
	again("Join of a ticket that is held", r)

	r = reader("general")
	tk = join("Join of a reader", r)
	check("Renew of a reader", renew(t, a, tk)[tk.ID].Proof, sent())
	again("Join of a reader that holds", r)

	r = reader("fixed")
	r.Hold = time.Hour
	tk = join("Join with Hold", r)
	granted := driver.Now()
	time.Sleep(50 * time.Millisecond)
	check("Renew of a ticket with a fixed end", renew(t, a, tk)[tk.ID].Proof, granted.Add(10*time.Millisecond))

	for _, hold := range []time.Duration{0, time.Hour} {
		front := joined(t, b, exclusive("handed over"), true)
		r = exclusive("handed over")
		r.Hold = hold
		waits := join("Join of a ticket that waits", r)
		joined := sent()
		asked := driver.Now()
		// Later scripts see the ticket. They do not extend it.
		errtest.Must(d.Follow(t.Context(), "handed over", ""))(t)
		if r := renew(t, a)[waits.ID]; r.State != driver.Stray {
			t.Errorf("Renew that does not name the ticket: %+v", r)
		}
		trip := driver.Now().Sub(asked)
		time.Sleep(50 * time.Millisecond) // so that the Join and the hand-over differ
		before := driver.Now()
		noError(t, b.Leave(t.Context(), front, true))
		got := awaited(t, a, waits)
		if hold == 0 {
			check("Await", got.Proof, joined)
		} else if early := before.Sub(got.Proof); got.Proof > driver.Now() || early > trip+5*time.Millisecond {
			// The clocks of both were compared in that time.
			t.Errorf("Await of a ticket with Hold: the proof is %v before the hand-over began, and the clocks are compared to %v", early, trip)
		}
		noError(t, a.Leave(t.Context(), got, true))
	}
}

// Promise: a proof is not in the future, though the server's clock was set forward.
func TestAProofIsNeverInTheFuture(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	_, a := session(t, s.URL(), time.Minute)
	_, b := session(t, s.URL(), time.Minute)
	held := errtest.Must(a.Join(t.Context(), exclusive("q")))(t)
	r := exclusive("q")
	r.Hold = 30 * time.Second
	wait := errtest.Must(b.Join(t.Context(), r))(t)
	s.StepClock(20 * time.Second)
	time.Sleep(100 * time.Millisecond)
	noError(t, a.Leave(t.Context(), held, true))
	tk := awaited(t, b, wait)
	if ahead := tk.Proof.Sub(driver.Now()); ahead > 0 {
		t.Errorf("the proof of a grant that is here already is %v in the future", ahead)
	}
}
