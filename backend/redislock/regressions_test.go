package redislock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/redistest"
)

func exclusive(queue string) driver.Request { return request(queue, 1, 1) }

// What must not wait for a server is done soon, however busy the machine, while with
// these timeouts whoever does wait takes a minute.
const (
	soon    = 20 * time.Second
	patient = "timeout=1m&dial_timeout=1m"
)

// inTime makes sure that a call has not waited for the server.
func inTime(t *testing.T, what string, began time.Time, err error) {
	t.Helper()
	if took := time.Since(began); took > soon {
		t.Errorf("%s took %v: %v", what, took, err)
	}
}

// returns is inTime that does not wait for the call.
func returns(t *testing.T, what string, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
	case <-time.After(soon):
		t.Fatalf("%s has not returned after %v", what, soon)
	}
}

// patientOption is patient for a client of the test's own.
func patientOption(s *redistest.Server) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{s.Addr}, DisableCache: true, ConnWriteTimeout: time.Minute, Dialer: net.Dialer{Timeout: time.Minute},
	}
}

// warm makes sure that the server knows the scripts that a test disturbs.
func warm(t *testing.T, s *driver.Opened) {
	t.Helper()
	a, err := s.Join(t.Context(), exclusive("warm"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Join(t.Context(), exclusive("warm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(t.Context(), []driver.Ticket{a, b}); err != nil {
		t.Fatal(err)
	}
	_ = s.Leave(t.Context(), a, true)
	_ = s.Leave(t.Context(), b, true)
}

// Promise: a ticket that was evicted before its Join was repeated is guaranteed for as
// long as the server keeps it, not for a TTL from then, and the server keeps it no longer.
func TestAnEvictedTicketThatIsFoundAgainProvesNoMore(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	p := redistest.NewProxy(t, s.Addr)
	const ttl = time.Minute
	_, a := session(t, "redis://"+p.Addr, ttl)
	db, b := session(t, s.URL(), time.Hour)
	warm(t, a)
	for _, form := range []string{"lone", "general"} {
		queue := "q" + form
		if form == "general" { // tombstones keep the queue in its general form
			x, _ := b.Join(t.Context(), exclusive(queue))
			y, _ := b.Join(t.Context(), exclusive(queue))
			_ = b.Leave(t.Context(), y, true)
			_ = b.Leave(t.Context(), driver.Ticket{ID: exclusive(queue).ID, Queue: queue}, true)
			_ = b.Leave(t.Context(), x, true)
			z, _ := a.Join(t.Context(), exclusive(queue)) // learns of it
			_ = a.Leave(t.Context(), z, true)
		}
		p.LoseReplies(1, "EVALSHA")
		r := exclusive(queue)
		if _, err := a.Join(t.Context(), r); err == nil {
			t.Fatal("the reply was not lost")
		}
		if err := db.Ask(t.Context(), queue, r.ID, driver.Evict); err != nil {
			t.Fatal(err)
		}
		next, err := b.Join(t.Context(), exclusive(queue))
		if err != nil || next.Held {
			t.Fatal(next, err)
		}
		s.StepClock(ttl / 3)
		r.Retry = true
		tk, err := a.Join(t.Context(), r)
		if err != nil || !tk.Held {
			t.Fatal(tk, err)
		}
		q, err := db.Follow(t.Context(), queue, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(q.Members) != 2 || q.Members[0].ID != r.ID {
			t.Fatalf("the queue is %+v", q)
		}
		if left := q.Members[0].Left; left > ttl*2/3+time.Second {
			t.Errorf("%s: the repeated Join has prolonged the ticket: it stands for %v", form, left)
		}
		end := driver.Now().Add(q.Members[0].Left) // or sooner: it was read some time ago
		if over := tk.Proof.Add(ttl).Sub(end); over > 50*time.Millisecond {
			t.Errorf("%s: the holder is told %v more than the server keeps", form, over)
		}
		s.StepClock(ttl)
		if _, err := b.Renew(t.Context(), []driver.Ticket{next}); err != nil { // and looks
			t.Fatal(err)
		}
		_ = b.Leave(t.Context(), awaited(t, b, next), true)
	}
}

// Promise: a grant is confirmed by replicas of the master that made it, not of another one.
func TestOnlyTheMasterThatGrantedConfirms(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	replica := redistest.Start(t)
	do(t, replica, "REPLICAOF", "127.0.0.1", strconv.Itoa(two.Port))
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		do(t, two, "SET", "x", "y")
		if do(t, replica, "GET", "x") == "y" {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("no replica")
		}
	}
	var mu sync.Mutex
	master := one.Addr
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{one.Addr}, DisableCache: true, PipelineMultiplex: -1,
		DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			return d.DialContext(ctx, "tcp", master)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d, err := redislock.New(t.Context(), client, redislock.Replicas(1, 3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a, err := d.Open(t.Context(), driver.SessionOptions{TTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	// A failover: new connections go to the new master; the old one still answers on
	// the connection that there is, cut off from its replicas.
	mu.Lock()
	master = two.Addr
	mu.Unlock()
	_, b := session(t, two.URL(), 5*time.Second)
	if holds, err := b.Join(t.Context(), exclusive("waited for")); err != nil || !holds.Held {
		t.Fatal(holds, err)
	}
	r := exclusive("waited for") // the new master has missed its grant
	if waits, err := b.Join(t.Context(), r); err != nil || waits.Held {
		t.Fatal(waits, err)
	}
	if tk, err := a.Join(t.Context(), r); err == nil {
		t.Errorf("confirmed by replicas of a master where it waits: %+v", tk)
	}
	tk, err := a.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Logf("not granted: %v", err)
		t.Log(do(t, two, "INFO", "replication"))
		return
	}
	other, err := b.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	if tk.Held && other.Held {
		t.Errorf("two hold: %d was confirmed by replicas of a master that does not know it, %d holds there", tk.Token, other.Token)
	}
}

// Promise: when the server loses a key of a queue, others have the lock soon after.
func TestALostKeyBlocksNobodyForEver(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"q", "w", "e"} {
		for _, leave := range []bool{true, false} {
			t.Run(fmt.Sprint(lost, leave), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				const ttl = 500 * time.Millisecond
				_, a := session(t, s.URL(), ttl)
				_, b := session(t, s.URL(), ttl)
				held, err := a.Join(t.Context(), exclusive("q"))
				if err != nil {
					t.Fatal(err)
				}
				wait, err := b.Join(t.Context(), exclusive("q"))
				if err != nil {
					t.Fatal(err)
				}
				do(t, s, "DEL", "interlock:{q}:"+lost)
				if leave {
					t.Logf("Leave of the holder: %v", a.Leave(t.Context(), held, true))
					t.Logf("Leave of the waiting one: %v", b.Leave(t.Context(), wait, true))
				}
				_, c := session(t, s.URL(), ttl)
				q := exclusive("q")
				var last error
				var kept int
				for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
					var tk driver.Ticket
					if errors.Is(last, driver.ErrGone) { // nobody renewed it for a TTL
						q = exclusive("q")
					}
					tk, last = c.Join(t.Context(), q)
					q.Retry = true
					if last == nil {
						_, last = c.Renew(t.Context(), []driver.Ticket{tk})
					}
					if last != nil || !tk.Held {
						kept = 0
					} else if kept++; kept > 50 { // longer than a TTL
						return
					}
				}
				t.Errorf("a minute later nobody can have the lock: %v", last)
			})
		}
	}
}

// Promise: when the server loses a queue, whoever held is still protected by the lock's key.
func TestALostQueueIsStillHeld(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL(), 5*time.Second)
	_, b := session(t, s.URL(), 5*time.Second)
	held, err := a.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	wait, err := b.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	_ = b.Leave(t.Context(), wait, true)
	do(t, s, "DEL", "interlock:{q}:q")
	t.Log("LOCK:", do(t, s, "GET", "q"))
	other, err := b.Join(t.Context(), exclusive("q"))
	if err == nil && other.Held && driver.Now() < held.Proof.Add(5*time.Second) {
		t.Errorf("two hold, although the lock's own key still says that it is taken")
	}
}

// Promise: a client of Redis that sends a script twice makes no second ticket.
func TestAScriptThatIsSentTwice(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr}, DisableCache: true, PipelineMultiplex: -1, ConnLifetime: 1500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d, err := redislock.New(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a, err := d.Open(t.Context(), driver.SessionOptions{TTL: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	_, b := session(t, s.URL(), 10*time.Second)
	warm(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A context without deadline makes the connection a pipelining one.
	if _, err := a.Renew(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Load(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	s.Pause()
	go func() { time.Sleep(2500 * time.Millisecond); s.Resume() }()
	tk, err := a.Join(ctx, exclusive("q"))
	t.Logf("Join: %+v %v", tk, err)
	t.Log("LOCK", do(t, s, "GET", "q"), "QUEUE", do(t, s, "HGETALL", "interlock:{q}:q"))
	if err == nil && !tk.Held {
		t.Errorf("the only one waits: behind itself")
	}
	if err := a.Leave(ctx, tk, true); err != nil {
		t.Errorf("Leave: %v", err)
	}
	if _, err := b.Join(ctx, exclusive("q")); err != nil {
		t.Errorf("Join of another: %v", err)
	}
}

// Promise: that a holder died is known for weeks, whatever form its queue had.
func TestADeathIsInheritedLongAfter(t *testing.T) {
	t.Parallel()
	robust := func(q string) driver.Request { r := exclusive(q); r.Robust = true; return r }
	for _, form := range []string{"lone", "general"} {
		for _, later := range []time.Duration{30 * time.Minute, 65 * time.Minute, 130 * time.Minute, 150 * time.Minute, 12 * time.Hour} {
			t.Run(form+later.String(), func(t *testing.T) {
				s := redistest.Start(t, redistest.FakeTime(0))
				_, a := session(t, s.URL(), time.Second)
				_, b := session(t, s.URL(), time.Second)
				dead, err := a.Join(t.Context(), robust("q"))
				if err != nil || !dead.Held {
					t.Fatal(dead, err)
				}
				if form == "general" {
					w, err := b.Join(t.Context(), robust("q"))
					if err != nil {
						t.Fatal(err)
					}
					_ = b.Leave(t.Context(), w, true)
					_ = b.Leave(t.Context(), driver.Ticket{ID: exclusive("q").ID, Queue: "q"}, true)
					_ = a.Leave(t.Context(), dead, true)
					if dead, err = a.Join(t.Context(), robust("q")); err != nil || !dead.Held {
						t.Fatal(dead, err)
					}
				}
				s.StepClock(later) // the holder never leaves
				tk, err := b.Join(t.Context(), robust("q"))
				if err != nil || !tk.Held {
					t.Fatal(tk, err)
				}
				if !tk.Inherited {
					t.Errorf("%v after its holder has died the lock is not inherited", later)
				}
			})
		}
	}
}

// Promise: whoever asks with Robust hears of the death of a holder who did not.
func TestTheDeathOfAHolderWithoutRobustIsInherited(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"lone", "general"} {
		t.Run(form, func(t *testing.T) {
			s := redistest.Start(t, redistest.FakeTime(0))
			_, a := session(t, s.URL(), time.Minute)
			_, b := session(t, s.URL(), time.Minute)
			dead, err := a.Join(t.Context(), exclusive("q"))
			if err != nil || !dead.Held {
				t.Fatal(dead, err)
			}
			if form == "general" {
				w, err := b.Join(t.Context(), exclusive("q"))
				if err != nil {
					t.Fatal(err)
				}
				if err := b.Leave(t.Context(), w, true); err != nil {
					t.Fatal(err)
				}
			}
			s.StepClock(2 * time.Minute)
			r := exclusive("q")
			r.Robust = true
			tk, err := b.Join(t.Context(), r)
			if err != nil || !tk.Held || !tk.Inherited {
				t.Errorf("the next holder: %+v %v", tk, err)
			}
		})
	}
}

// Promise: what keeps tokens growing lives as long as the ticket, however it is renewed.
func TestTheTokenOfALoneTicketIsKept(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	p := redistest.NewProxy(t, s.Addr)
	const ttl = time.Minute
	_, a := session(t, "redis://"+p.Addr, ttl)
	_, b := session(t, s.URL(), ttl)
	warm(t, a)
	p.LoseReplies(1, "EVALSHA")
	r := exclusive("q")
	r.Robust = true
	if _, err := a.Join(t.Context(), r); err == nil {
		t.Fatal("the reply was not lost")
	}
	r.Retry = true
	tk, err := a.Join(t.Context(), r)
	if err != nil || !tk.Held {
		t.Fatal(tk, err)
	}
	do(t, s, "PEXPIRE", "interlock:{q}:t", "50000") // an hour is nearly over
	for range 8 {
		s.StepClock(ttl / 4)
		if r, err := a.Renew(t.Context(), []driver.Ticket{tk}); err != nil || r[0].State != driver.Kept {
			t.Fatal(r, err)
		}
	}
	if got := do(t, s, "GET", "interlock:{q}:t"); got == nil {
		t.Errorf("held and renewed, but its mark and token are gone")
	}
	s.StepClock(2 * ttl) // and dies
	r = exclusive("q")
	r.Robust = true
	if tk, err := b.Join(t.Context(), r); err != nil || !tk.Inherited {
		t.Errorf("its death is not inherited: %+v %v", tk, err)
	}
}

// Promise: everybody who watches a cell is told at once.
func TestManyWatchersAreTold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const n = 120
	dd := make([]driver.Driver, n)
	var wg sync.WaitGroup
	for i := range dd {
		wg.Go(func() { dd[i], _ = session(t, s.URL(), time.Second) })
	}
	wg.Wait()
	c, err := dd[0].Swap(t.Context(), driver.Swap{ID: exclusive("").ID, Name: "c", Value: []byte("a")})
	if err != nil {
		t.Fatal(err)
	}
	woke := make(chan time.Duration, n)
	var began time.Time
	for _, d := range dd {
		go func() {
			if _, err := d.Watch(t.Context(), "c", c.Version); err != nil {
				return
			}
			woke <- time.Since(began)
		}()
	}
	for do(t, s, "ZCARD", "interlock:{c}:cf") != int64(n) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	began = time.Now()
	if _, err := dd[0].Swap(t.Context(), driver.Swap{ID: exclusive("").ID, Name: "c", Version: c.Version, Value: []byte("b")}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		select {
		case <-woke:
		case <-time.After(10 * time.Second): // later each looks by itself
			t.Fatalf("%d of %d were told", i, n)
		}
	}
}

// Promise: an Acquire that is cancelled returns, though the server does not answer.
func TestACancelledAcquireReturns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	open, done := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer done()
	c, err := interlock.Open(open, s.URL()+"?"+patient, interlock.TTL(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	release(t, acquire(t, c.Mutex("warm")))
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	_, err = c.Mutex("q").Acquire(ctx)
	inTime(t, "Acquire with a context that ended after 100ms", began, err)
}

// Promise: Renew returns with its context, though it has to connect first.
func TestRenewReturnsThoughItMustDial(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL()+"?"+patient, 10*time.Minute)
	tk, err := a.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = a.Renew(ctx, []driver.Ticket{tk})
	inTime(t, "Renew with a context of 300ms", began, err)
}

// Promise: Renew returns with its context, though giving a connection back takes long.
func TestRenewReturnsThoughAConnectionIsGivenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, a := session(t, s.URL()+"?"+patient, 10*time.Minute)
	_, b := session(t, s.URL(), 10*time.Second)
	if _, err := b.Join(t.Context(), exclusive("q")); err != nil {
		t.Fatal(err)
	}
	tk, err := a.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	before := d.Exchanges()
	s.KillConnections("pubsub")
	for began := time.Now(); d.Exchanges() == before && time.Since(began) < 5*time.Second; { // it repairs
		time.Sleep(time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = a.Renew(ctx, []driver.Ticket{tk})
	inTime(t, "Renew with a context of 300ms", began, err)
}

// Promise: a call returns with its context, though another one is connecting.
func TestCallsReturnThoughAnotherDials(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL()+"?"+patient, 10*time.Minute)
	warm(t, a)
	s.KillConnections("normal")
	s.Pause()
	defer s.Resume()
	long, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	go func() { _, _ = a.Join(long, exclusive("p")) }()
	time.Sleep(200 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := a.Join(ctx, exclusive("q"))
	inTime(t, "Join with a context of 300ms", began, err)
}

// Promise: a call that has to connect first returns with its context.
func TestCallsReturnThoughTheyDial(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL()+"?"+patient, 10*time.Minute)
	warm(t, a)
	s.KillConnections("normal")
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	returns(t, "Join with a context that ended after 300ms", func() { _, _ = a.Join(ctx, exclusive("q")) })
}

// Promise: a driver that cannot be opened, since the server does not answer, is given up with
// its context.
func TestOpenReturnsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	returns(t, "opening with a context of 300ms", func() {
		if d, err := openURL(ctx, s.URL()+"?"+patient); err == nil {
			d.Close()
			t.Error("opened, though the server does not answer")
		}
	})
}

// Promise: a ticket whose time is over is not shown any more, though nobody has removed it.
func TestWhatIsOverIsNotShown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	const ttl = time.Minute
	d, a := session(t, s.URL(), ttl)
	for _, r := range []driver.Request{exclusive("lone"), request("reader", 1, driver.RWCapacity)} {
		if tk, err := a.Join(t.Context(), r); err != nil || !tk.Held {
			t.Fatal(tk, err)
		}
		s.StepClock(2 * ttl)
		if q, err := d.Follow(t.Context(), r.Queue, ""); err != nil || len(q.Members) > 0 {
			t.Errorf("%s: two TTLs later the queue is %+v, %v", r.Queue, q.Members, err)
		}
	}
}

// Promise: a Join that never had an answer costs nothing once its ticket must be over.
func TestLostJoinsAreForgotten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	const ttl = 300 * time.Millisecond
	_, a := session(t, "redis://"+p.Addr, ttl)
	warm(t, a)
	p.Hang()
	var wg sync.WaitGroup
	const n = 500
	for i := range n {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, _ = a.Join(ctx, exclusive("q"+strconv.Itoa(i)))
		})
	}
	wg.Wait()
	p.Resume()
	time.Sleep(5 * ttl)
	for range 10 {
		if _, err := a.Renew(t.Context(), nil); err != nil {
			t.Log(err)
		}
		time.Sleep(ttl)
	}
	before := p.ToServer()
	if _, err := a.Renew(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	after := p.ToServer()
	if sent := after.Frames - before.Frames; sent > 10 {
		t.Errorf("long after all tickets have gone, a heartbeat sends %d requests (%d bytes)", sent, after.Bytes-before.Bytes)
	}
}

// Promise: a ticket with a fixed end costs nothing once it is over.
func TestFixedTicketsThatAreOverAreForgotten(t *testing.T) {
	s := redistest.Start(t)
	const ttl = 100 * time.Millisecond
	_, a := session(t, s.URL(), ttl)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	batch := func(k int) {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for j := range 100 {
					r := exclusive(fmt.Sprintf("q%d-%d", i, j))
					r.Hold = time.Millisecond
					if _, err := a.Join(t.Context(), r); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		for range 6 {
			time.Sleep(ttl)
			if _, err := a.Renew(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	batch(0)
	base := heap()
	for k := range 2 {
		batch(k)
		t.Logf("heap %+d after %d more", int64(heap())-int64(base), 5000*(k+1))
	}
	if grown := int64(heap()) - int64(base); grown > 3<<19 {
		t.Errorf("10,000 leases of a fixed time that are over cost %d bytes each, for ever", grown/10000)
	}
}

// Promise: whoever becomes the first in line looks for what nobody tells.
func TestWhoBecomesTheFirstInLineLooks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = 5 * time.Minute
	_, a := session(t, s.URL(), ttl)
	_, b := session(t, s.URL(), ttl)
	t.Run("stranger", func(t *testing.T) {
		do(t, s, "SET", "x", "stranger")
		first, _ := a.Join(t.Context(), exclusive("x"))
		second, _ := b.Join(t.Context(), exclusive("x"))
		_ = a.Leave(t.Context(), first, true)
		do(t, s, "DEL", "x")
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if _, err := b.Await(ctx, second); err != nil {
			t.Errorf("free for long, and the only one who waits still does: %v", err)
		}
	})
	t.Run("dead", func(t *testing.T) {
		_, dead := session(t, s.URL(), time.Second)
		if _, err := dead.Join(t.Context(), exclusive("y")); err != nil {
			t.Fatal(err)
		}
		first, _ := a.Join(t.Context(), exclusive("y"))
		second, _ := b.Join(t.Context(), exclusive("y"))
		_ = a.Leave(t.Context(), first, true)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if _, err := b.Await(ctx, second); err != nil {
			t.Errorf("long after the holder's time was over the only one who waits still does: %v", err)
		}
	})
}

// Promise: what refuses late Joins goes away.
func TestTombstonesGoAway(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, long := session(t, s.URL(), 2*time.Second)
	_, short := session(t, s.URL(), 100*time.Millisecond)
	x, y := driver.Ticket{ID: exclusive("").ID, Queue: "q"}, driver.Ticket{ID: exclusive("").ID, Queue: "q"}
	_ = long.Leave(t.Context(), x, true)
	_ = short.Leave(t.Context(), x, true)
	time.Sleep(200 * time.Millisecond)
	_ = short.Leave(t.Context(), y, true)
	if left := do(t, s, "PTTL", "interlock:{q}:x"); left == int64(-1) {
		t.Errorf("the key of the tombstones stays for ever")
	}
}

// Promise: a server whose memory is full takes nobody's lock away.
func TestAFullMemoryCostsNobodyALock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	_, a := session(t, s.URL(), time.Minute)
	_, b := session(t, s.URL(), time.Minute)
	held, err := a.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	wait, err := b.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := a.Join(t.Context(), exclusive("alone"))
	if err != nil {
		t.Fatal(err)
	}
	warm(t, b)
	do(t, s, "CONFIG", "SET", "maxmemory", "100000")
	r, err := a.Renew(t.Context(), []driver.Ticket{held, alone})
	if err != nil || len(r) != 2 {
		t.Errorf("Renew with a full memory: %v %v", r, err)
	}
	if err := a.Leave(t.Context(), held, true); err != nil {
		t.Errorf("Leave: %v", err)
	}
	if err := a.Leave(t.Context(), alone, true); err != nil {
		t.Errorf("Leave: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if _, err := b.Await(ctx, wait); err != nil {
		t.Errorf("Await: %v", err)
	}
}

// Promise: a proof is not in the future, though the server's clock was set forward.
func TestAProofIsNeverInTheFuture(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	_, a := session(t, s.URL(), time.Minute)
	_, b := session(t, s.URL(), time.Minute)
	held, err := a.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	r := exclusive("q")
	r.Hold = 30 * time.Second
	wait, err := b.Join(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	s.StepClock(20 * time.Second)
	time.Sleep(100 * time.Millisecond)
	if err := a.Leave(t.Context(), held, true); err != nil {
		t.Fatal(err)
	}
	tk := awaited(t, b, wait)
	if ahead := tk.Proof.Sub(driver.Now()); ahead > 0 {
		t.Errorf("the proof of a grant that is here already is %v in the future", ahead)
	}
}

// Promise: a ticket that was kept outlives its session, though the reply to Keep was lost.
func TestAKeptTicketOutlivesItsSession(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	_, a := session(t, "redis://"+p.Addr, time.Minute)
	_, b := session(t, s.URL(), time.Minute)
	w, _ := b.Join(t.Context(), exclusive("w"))
	_ = b.Keep(t.Context(), w, time.Millisecond)
	tk, err := a.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	p.LoseReplies(1, "EVALSHA")
	if err := a.Keep(t.Context(), tk, 5*time.Minute); err == nil {
		t.Fatal("the reply was not lost")
	}
	db, _ := session(t, s.URL(), time.Second)
	if q, err := db.Follow(t.Context(), "q", ""); err != nil || len(q.Members) != 1 || !q.Members[0].Fixed {
		t.Fatalf("Keep took no effect: %+v %v", q, err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := b.Join(t.Context(), exclusive("q"))
	if err != nil || next.Held {
		t.Errorf("a ticket with a fixed end left with its session: %+v %v", next, err)
	}
}

// Promise: Close returns, though the server does not answer.
func TestCloseReturnsThoughTheServerHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, err := rueidis.NewClient(patientOption(s))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d, err := redislock.New(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	s.KillConnections("pubsub") // it is just being made anew
	s.Pause()
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	inTime(t, "Close", began, d.Close())
	s.Resume()
}

// Promise: the line behind another library's lock goes away if all in it die.
func TestALineBehindAnotherLibraryExpires(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, a := session(t, s.URL(), 300*time.Millisecond)
	do(t, s, "SET", "q", "stranger")
	wait, err := a.Join(t.Context(), exclusive("q"))
	if err != nil || wait.Held {
		t.Fatal(wait, err)
	}
	if _, err := a.Renew(t.Context(), []driver.Ticket{wait}); err != nil {
		t.Fatal(err)
	}
	if left := do(t, s, "PTTL", "interlock:{q}:w"); left == int64(-1) {
		t.Errorf("the key of those who wait stays for ever")
	}
	// Its client dies; hours later everything else is gone.
	d.Close()
	do(t, s, "DEL", "q")
	for _, k := range []string{"q", "e", "t"} {
		do(t, s, "DEL", "interlock:{q}:"+k)
	}
	_, b := session(t, s.URL(), time.Minute)
	held, err := b.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	next, err := b.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	if left := do(t, s, "EXISTS", "interlock:{q}:w"); left == int64(1) {
		if err := b.Leave(t.Context(), held, true); err != nil {
			t.Errorf("Leave: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if _, err := b.Await(ctx, next); err != nil {
			t.Errorf("Await: %v", err)
		}
	}
}

// Promise: no token is beyond the last one.
func TestNoTokenIsBeyondTheLast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, a := session(t, s.URL(), time.Minute)
	if err := d.Raise(t.Context(), "q", driver.MaxToken-8); err != nil {
		t.Fatal(err)
	}
	var all []driver.Ticket
	for range 20 {
		tk, err := a.Join(t.Context(), exclusive("q"))
		if err != nil {
			break
		}
		all = append(all, tk)
	}
	for i, tk := range all {
		tk := awaited(t, a, tk)
		if tk.Token >= driver.MaxToken {
			t.Fatalf("grant %d has the token %d, which is not below %d", i, tk.Token, uint64(driver.MaxToken))
		}
		if err := a.Leave(t.Context(), tk, true); err != nil {
			t.Fatal(err)
		}
	}
}

// Promise: the offset of a raise does not carry tokens beyond the last one, however much time
// goes by: the last ones are counted.
func TestAnOffsetLeavesTokensForLong(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.FakeTime(0))
	d, a := session(t, s.URL(), time.Minute)
	if err := d.Raise(t.Context(), "q", driver.MaxToken-1<<21); err != nil {
		t.Fatal(err)
	}
	last := uint64(driver.MaxToken - 1<<21)
	for range 10 {
		tk, err := a.Join(t.Context(), exclusive("q"))
		if err != nil || !tk.Held || tk.Token <= last || tk.Token >= driver.MaxToken {
			t.Fatalf("%+v, %v after the token %d", tk, err, last)
		}
		last = tk.Token
		if err := a.Leave(t.Context(), tk, true); err != nil {
			t.Fatal(err)
		}
		s.StepClock(24 * time.Hour)
	}
}

// Promise: Close ends calls on a client that the program has brought.
func TestCloseEndsCallsOfAForeignClient(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, err := rueidis.NewClient(patientOption(s))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d, err := redislock.New(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Open(t.Context(), driver.SessionOptions{TTL: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	warm(t, a)
	s.Pause()
	defer s.Resume()
	done := make(chan error, 1)
	go func() { _, err := a.Join(t.Context(), exclusive("q")); done <- err }()
	time.Sleep(100 * time.Millisecond)
	_ = d.Close()
	select {
	case <-done:
	case <-time.After(soon):
		t.Error("Join still hangs long after Close")
	}
}

// Promise: a lease does not end sooner because the script that finds another in
// line behind it was slow. Here the script has the remains of a lost queue to remove.
func TestASlowScriptTakesNothingFromTheLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const ttl = time.Minute // nothing renews it, and a busy machine takes long for what follows
	_, a := session(t, s.URL(), ttl)
	_, b := session(t, s.URL(), ttl)
	warm(t, b)
	held, err := a.Join(t.Context(), exclusive("q"))
	if err != nil {
		t.Fatal(err)
	}
	for range 16 { // each is answered soon
		do(t, s, "EVAL", `local n = redis.call('ZCARD', KEYS[1]); for i = n + 1, n + 25000 do redis.call('ZADD', KEYS[1], i, i) end`, "1", "interlock:{q}:w")
	}
	end, ok := do(t, s, "EVAL", `
		local now = redis.call('TIME')
		local left = redis.call('PTTL', 'q')
		return now[1] * 1000000 + now[2] + left * 1000 - now[2] % 1000`, "0").(int64)
	if !ok {
		t.Fatal("the end of the lone ticket is unknown")
	}
	began := time.Now()
	if _, err := b.Join(t.Context(), exclusive("q")); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	score, ok := do(t, s, "ZSCORE", "interlock:{q}:e", held.ID).(string)
	if !ok {
		t.Fatal("the ticket in front has no end")
	}
	got, err := strconv.ParseFloat(score, 64)
	if err != nil {
		t.Fatal(err)
	}
	if lost := time.Duration(end-int64(got)) * time.Microsecond; lost > 0 {
		t.Errorf("the lease in front ends %v sooner after a Join that took %v", lost, took)
	}
}

// Who waits for a lock whose end was moved forward has it then, and not with the next
// heartbeat, a third of the TTL later.
func TestWhoWaitsHearsOfAnEarlierEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	open := func() *interlock.Client {
		c, err := interlock.Open(t.Context(), "redis://"+s.Addr, interlock.TTL(3*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	a, b := open(), open()
	for name, shorten := range map[string]func(t *testing.T, lease *interlock.Lease) error{
		"AtLeast": func(_ *testing.T, lease *interlock.Lease) error { return lease.Release() },
		"Extend": func(t *testing.T, lease *interlock.Lease) error {
			return lease.Extend(t.Context(), 100*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			option := interlock.AtLeast(100 * time.Millisecond)
			if name == "Extend" {
				option = interlock.Hold(10 * time.Minute)
			}
			lease, err := a.Mutex(name, option).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			granted := make(chan error, 1)
			go func() {
				next, err := b.Mutex(name).Acquire(t.Context())
				if err == nil {
					err = next.Release()
				}
				granted <- err
			}()
			for waits := false; !waits; time.Sleep(time.Millisecond) {
				for q, err := range b.Queues(t.Context(), name) {
					if err != nil {
						t.Fatal(err)
					}
					waits = len(q.Waiters) == 1
				}
			}
			if err := shorten(t, lease); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-granted:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(soon):
				t.Errorf("who waits has not got the lock %v after its end", soon)
			}
		})
	}
}
