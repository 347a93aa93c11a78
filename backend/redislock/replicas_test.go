package redislock_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
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
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: with replicas=n a grant counts only when n replicas have it; otherwise it
// is undone as if it had not been. That goes for hand-overs too.
func TestGrantsThatReplicasMustConfirm(t *testing.T) {
	t.Parallel()
	master, replica := replicated(t)
	url := master.URL() + "?replica_timeout=300ms&replicas="
	one := opener(t, url+"1", interlock.TTL(10*time.Second))
	a, b := one(), one()
	plain := opener(t, master.URL(), interlock.TTL(10*time.Second))()

	l := acquire(t, a.Mutex("q", interlock.StrictOrder(), interlock.ReportDeath()))
	next := make(chan *interlock.Lease, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		l, err := b.Mutex("q", interlock.StrictOrder(), interlock.ReportDeath()).Acquire(ctx)
		if err != nil {
			t.Error(err)
		}
		next <- l
	}()
	waiting(t, a, "q", 1)

	replica.Pause()
	release(t, l) // the hand-over is not confirmed, and undone
	if _, err := a.Mutex("other", interlock.ReportDeath()).TryAcquire(t.Context()); err == nil {
		t.Fatal("a grant counts although no replica has it")
	} else {
		t.Log(err)
	}
	select {
	case <-next:
		t.Fatal("a hand-over counts although no replica has it")
	case <-time.After(500 * time.Millisecond):
	}
	// Undone, it keeps out nobody who does not ask for replicas.
	other := acquire(t, plain.Mutex("other", interlock.ReportDeath()))
	if other.Inherited() {
		t.Error("a grant that was undone looks like a holder who died")
	}
	release(t, other)

	replica.Resume()
	if l = errtest.Received(t, "the next holder", next); l == nil {
		t.FailNow()
	}
	if l.Inherited() {
		t.Error("a hand-over that was undone looks like a holder who died")
	}
	release(t, l)
	release(t, acquire(t, a.Mutex("other")))
}

// Promise: with more replicas than there are, nothing is granted, and the error says
// why.
func TestMoreReplicasThanThereAre(t *testing.T) {
	t.Parallel()
	master, _ := replicated(t)
	for there, s := range []*redistest.Server{redistest.Start(t), master} {
		url := fmt.Sprintf("%s?replicas=%d", s.URL(), there+1)
		ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
		defer cancel()
		c := opener(t, url, interlock.TTL(time.Second), interlock.Observe(func(_ context.Context, e interlock.Event) {
			if e.Kind == interlock.EventRetry { // it would try again for ever
				cancel()
			}
		}))()
		_, err := c.Mutex("q").Acquire(ctx)
		if err == nil {
			t.Fatalf("granted with %d of %d replicas", there, there+1)
		}
		if want := fmt.Sprintf("the backend: redis: %d of %d replicas have confirmed the grant", there, there+1); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		onlyTokens(t, s)
	}
}

// Promise: a renewal that replicas did not confirm proves nothing: after a failover the
// ticket would end sooner than its holder believes.
func TestARenewalThatReplicasDidNotConfirmProvesNothing(t *testing.T) {
	t.Parallel()
	master, replica := replicated(t)
	_, a := session(t, master.URL()+"?replicas=1&replica_timeout=3s", time.Hour)
	alone := errtest.Must(a.Join(t.Context(), exclusive("alone")))(t)
	reader := errtest.Must(a.Join(t.Context(), request("reader", 1, driver.RWCapacity)))(t)
	renew(t, a, alone, reader)
	replica.Pause()
	defer replica.Resume()
	if answer, err := a.Renew(t.Context(), []driver.Ticket{alone, reader}); err == nil {
		t.Errorf("a renewal counts although no replica has it: %+v", answer)
	}
}

// Promise: a grant that replicas did not confirm leaves no trace: whoever comes next
// inherits what it would have, and an Acquire that was cancelled meanwhile leaves the lock
// free at once.
func TestAnUnconfirmedGrantLeavesNoTrace(t *testing.T) {
	t.Parallel()
	master, replica := replicated(t)
	robust := func() driver.Request { r := exclusive("q"); r.ReportDeath = true; return r }
	_, plain := session(t, master.URL(), time.Hour)
	first := errtest.Must(plain.Join(t.Context(), robust()))(t)
	noError(t, plain.Leave(t.Context(), first, false))
	for _, c := range []struct {
		patience string // how long replicas may take
		cancel   bool   // the call, while replicas are waited for
	}{{"3s", false}, {"30s", true}} {
		_, a := session(t, master.URL()+"?replicas=1&replica_timeout="+c.patience, time.Hour)
		warm(t, a)
		replica.Pause()
		ctx, cancel := context.WithCancel(t.Context())
		if c.cancel {
			go func() {
				asked := func() (bool, error) {
					n, err := master.Do("EXISTS", "interlock:{q}:n")
					return n == int64(1), err
				}
				errtest.Is(t, testserver.Until(asked), nil, "replicas are not waited for")
				cancel()
			}()
		}
		r := robust()
		tk, err := a.Join(ctx, r)
		cancel()
		if err == nil {
			t.Fatalf("a grant counts although no replica has it: %+v", tk)
		}
		next := errtest.Must(plain.Join(t.Context(), robust()))(t)
		replica.Resume()
		if next = awaited(t, plain, next); !next.Inherited {
			t.Errorf("%v: a grant that was undone has taken the death of the last holder with it", c)
		}
		r.Retry = true // it is as if it had not been sent
		tk, err = a.Join(t.Context(), r)
		if err != nil || tk.Held {
			t.Errorf("%v: the Join of a grant that was undone, repeated: %+v, %v", c, tk, err)
		} else if err := a.Leave(t.Context(), tk, true); err != nil {
			t.Fatal(err)
		}
		noError(t, plain.Leave(t.Context(), next, false))
	}
}

// Promise: whoever tries a lock of a Cluster while its slot goes to another node is told so.
func TestALockWhoseSlotIsMoving(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, redistest.Replicas(1))
	_, a := session(t, "redis://"+strings.Join(c.Addrs(), ",")+"?replicas=1&replica_timeout=3s", time.Hour)
	name := rand.Text()
	from := c.Owner(name)
	to := c.Nodes[(slices.Index(c.Nodes, from)+1)%3] // the masters are the first
	var told []string
	for range 10 {
		stop := make(chan struct{})
		tries := make(chan []string)
		go func() {
			var all []string
			for {
				r := mutex(name)
				r.NoWait = true
				tk, err := a.Join(t.Context(), r)
				if err == nil {
					err = a.Leave(t.Context(), tk, true)
				}
				if err != nil && !errors.Is(err, driver.ErrGone) {
					all = append(all, err.Error())
				}
				select {
				case <-stop:
					tries <- all
					return
				default:
				}
			}
		}()
		c.Move(name, to)
		close(stop)
		told = append(told, <-tries...)
		from, to = to, from
	}
	for _, text := range told {
		for _, word := range []string{"MOVED ", "ASK ", "TRYAGAIN "} {
			if strings.Contains(text, word) && !strings.Contains(text, "is moving this name to another node") {
				t.Errorf("it says only: %s", text)
			}
		}
	}
	if len(told) == 0 {
		t.Error("no call has met a move")
	}
	busy.Until(t, "the lock can be joined where it is now", func() bool {
		_, err := a.Join(t.Context(), mutex(name))
		return err == nil
	})
}

// Promise: a grant is confirmed by replicas of the master that made it, not of another one.
func TestOnlyTheMasterThatGrantedConfirms(t *testing.T) {
	t.Parallel()
	one := redistest.Start(t)
	two, _ := replicated(t)
	var mu sync.Mutex
	master := one.Addr
	client := errtest.Must(rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{one.Addr}, DisableCache: true, PipelineMultiplex: -1,
		DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			return d.DialContext(ctx, "tcp", master)
		},
	}))(t)
	defer client.Close()
	d := errtest.Must(redislock.New(t.Context(), client, redislock.Replicas(1, 3*time.Second)))(t)
	defer d.Close()
	a := errtest.Must(d.Open(t.Context(), driver.SessionOptions{TTL: 5 * time.Second}))(t)
	// A failover: new connections go to the new master; the old one still answers on
	// the connection that there is, cut off from its replicas.
	mu.Lock()
	master = two.Addr
	mu.Unlock()
	_, b := session(t, two.URL(), 5*time.Second)
	joined(t, b, exclusive("waited for"), true)
	r := exclusive("waited for") // the new master has missed its grant
	joined(t, b, r, false)
	if tk, err := a.Join(t.Context(), r); err == nil {
		t.Errorf("confirmed by replicas of a master where it waits: %+v", tk)
	}
	tk, err := a.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Logf("not granted: %v", err)
		t.Log(do(t, two, "INFO", "replication"))
		return
	}
	other := errtest.Must(b.Join(t.Context(), exclusive("q")))(t)
	if tk.Held && other.Held {
		t.Errorf("two hold: %d was confirmed by replicas of a master that does not know it, %d holds there", tk.Token, other.Token)
	}
}
