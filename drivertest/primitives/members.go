package primitives

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/process"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// member is a client in a process of its own.
type member struct {
	*process.Process
	t   *trial
	rpc *rpc.Client
}

// member starts a process and opens a client there.
func (t *trial) member(ttl time.Duration) *member {
	p, err := process.Start(role)
	t.OK(err, "start a process")
	m := &member{Process: p, t: t, rpc: rpc.NewClient(p.Conn)}
	t.Later(func() { p.Kill(); m.rpc.Close() })
	t.OK(m.call("Open", Place{t.world.URL, ttl}, &struct{}{}), "open a client in another process")
	return m
}

// call calls a method of Served.
func (m *member) call(method string, args, reply any) error {
	call := m.rpc.Go("Member."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return call.Error
	case <-m.t.Ctx.Done():
		return m.t.Ctx.Err()
	}
}

func (m *member) acquire(w Want) Grant {
	var g Grant
	m.t.OK(m.call("Acquire", w, &g), "acquire in another process")
	return g
}

// stop stops the process, which is resumed by the function that it returns. It
// does so between two heartbeats: a process that is stopped during an exchange
// may keep its backend from serving others.
func (m *member) stop() (resume func()) {
	m.t.OK(m.call("Renewed", struct{}{}, &struct{}{}), "the heartbeat of another process")
	if err := m.Stop(); errors.Is(err, errors.ErrUnsupported) {
		m.t.Skip("processes cannot be stopped on this system")
	} else {
		m.t.OK(err, "stop a process")
	}
	return func() {
		m.t.OK(m.Resume(), "resume a process")
	}
}

// role is that of the copies of the test binary in which members live.
const role = "member"

func init() {
	process.Role(role, func(conn io.ReadWriteCloser) {
		s := &Served{leases: map[string]*watched{}, renewed: make(chan struct{}, 1)}
		r := rpc.NewServer()
		if err := r.RegisterName("Member", s); err != nil {
			panic(err)
		}
		r.ServeConn(conn)
		if s.client != nil {
			s.client.Close()
		}
	})
}

// Served is a client in a process of its own, as others call it. (net/rpc wants the
// names of methods and types to be exported.)
type Served struct {
	client  *interlock.Client
	renewed chan struct{}

	mu     sync.Mutex
	leases map[string]*watched
}

// watched is a lease whose holder notes until when it works.
type watched struct {
	lease *interlock.Lease
	over  chan struct{}
	last  int64 // guarded by over
	cause error // guarded by over
}

// Place is where a member opens its client.
type Place struct {
	URL string
	TTL time.Duration
}

// Want is a lock that a member acquires.
type Want struct {
	Kind, Name   string // mutex, candidate or entrance (of a double barrier of two)
	ExpiresAfter time.Duration
	ReportDeath  bool
}

// Grant is what it gets.
type Grant struct {
	ID    string
	Token uint64
}

// Fate is how a lease has ended.
type Fate struct {
	Last int64 // the last moment at which the holder worked
	Lost bool  // its context ended with ErrLost, and so did its Release
	Text string
}

// Open opens the client.
func (s *Served) Open(p Place, _ *struct{}) error {
	u, err := driver.ParseURL(p.URL)
	if err != nil {
		return err
	}
	d, err := driver.OpenURL(context.Background(), u)
	if err != nil {
		return err
	}
	s.client, err = interlock.New(context.Background(), d, interlock.TTL(p.TTL), interlock.Observe(func(_ context.Context, e interlock.Event) {
		if e.Kind == interlock.EventRenewed {
			select {
			case s.renewed <- struct{}{}:
			default:
			}
		}
	}))
	return err
}

// Acquire acquires a lock and works until its context ends.
func (s *Served) Acquire(w Want, g *Grant) error {
	ctx := context.Background()
	var opts []interlock.Option
	if w.ExpiresAfter > 0 {
		opts = append(opts, interlock.ExpiresAfter(w.ExpiresAfter))
	}
	if w.ReportDeath {
		opts = append(opts, interlock.ReportDeath())
	}
	var lease *interlock.Lease
	var err error
	switch w.Kind {
	case "mutex":
		lease, err = s.client.Mutex(w.Name, opts...).Acquire(ctx)
	case "candidate":
		lease, err = s.client.Election(w.Name).Campaign(ctx, "a member")
	case "entrance":
		lease, err = s.client.DoubleBarrier(w.Name, 2).Enter(ctx)
	default:
		err = fmt.Errorf("there is no %q", w.Kind)
	}
	if err != nil {
		return err
	}
	*g = Grant{lease.ID(), lease.Token()}
	h := &watched{lease: lease, over: make(chan struct{})}
	s.mu.Lock()
	s.leases[g.ID] = h
	s.mu.Unlock()
	go h.work()
	return nil
}

// work goes on until the lease is over, as a holder does that looks at its context.
func (h *watched) work() {
	defer close(h.over)
	ctx, cancel := h.lease.Bind(context.Background())
	defer cancel()
	for {
		at := suite.Stamp()
		if h.lease.Err() != nil {
			break
		}
		h.last = at
		time.Sleep(time.Millisecond)
	}
	<-ctx.Done()
	h.cause = context.Cause(ctx)
}

// Over waits until the lease is over.
func (s *Served) Over(id string, f *Fate) error {
	s.mu.Lock()
	h := s.leases[id]
	s.mu.Unlock()
	<-h.over
	err := h.lease.Release()
	f.Last = h.last
	f.Lost = errors.Is(h.cause, interlock.ErrLost) && errors.Is(err, interlock.ErrLost)
	f.Text = fmt.Sprintf("its context ended with %v, its release with %v", h.cause, err)
	return nil
}

// Renewed waits for the next heartbeat.
func (s *Served) Renewed(struct{}, *struct{}) error {
	select {
	case <-s.renewed:
	default:
	}
	<-s.renewed
	return nil
}

// Draw takes a number from a file under a mutex.
func (s *Served) Draw(file string, n *int) error {
	lease, err := s.client.Mutex("order").Acquire(context.Background())
	if err != nil {
		return err
	}
	if *n, err = draw(file); err != nil {
		return err
	}
	return lease.Release()
}

// busyHolder has a process parse JSON on all processors while it holds. The process is as busy as the promise allows:
// whenever a timer or an echo in it is later, some of its goroutines end. What is lost then is not judged.
var _ = rules.Add(rule{Name: "BusyHolder", Processes: true, Alone: true, Exact: true, Says: []string{
	"A process that is busy loses no lease as long as a timer and an echo over loopback in it are late by a fifth of the TTL at most.",
}}, func(t *trial) {
	m := t.member(max(t.TTL, 2*time.Second))
	pulse := t.pulse()
	var b Busy
	t.OK(m.call("Busy", BusyWant{Goroutines: 16, Judge: 3, Within: limit / 2}, &b), "a process is busy")
	felt := pulse.Longest()
	t.Logf("%+v; an exchange of an idle process took %v at most", b, felt)
	switch {
	case len(b.Lost) > 0 && felt > b.TTL/20: // a proof is a few exchanges, each as late as the process and the backend together
		t.Skipf("the backend is too slow: an exchange of an idle process took %v", felt)
	case len(b.Lost) > 0:
		t.Fatalf("%d leases are lost, where a timer and an echo were late by %v at most: %s", len(b.Lost), b.Latest, b.Lost[0])
	case b.Judged == 0 && (b.Goroutines == 0 || felt > b.TTL/5):
		t.Skipf("this machine is too slow: a timer and an echo, or an exchange of an idle process, were late by more than %v", b.TTL/5)
	case b.Judged == 0:
		t.Fatalf("a timer and an echo were late by more than %v again and again, with %d goroutines at last", b.TTL/5, b.Goroutines)
	}
})

// BusyWant says how busy a member is to be at first, for how many TTLs it is judged, and how long that may take.
type BusyWant struct {
	Goroutines, Judge int
	Within            time.Duration
}

// probes is how many timers and echoes there are at once. One alone is late by less than others are now and then.
const probes = 8

// Busy is what a busy member has found out.
type Busy struct {
	TTL        time.Duration
	Goroutines int           // at last
	Judged     time.Duration // in which no probe was too late, for a whole TTL
	Latest     time.Duration // that a probe was late by then
	Least      time.Duration // that a lease had left then
	Lost       []string      // the leases that were lost then
	Excused    int           // those that were lost at other times
}

// Busy holds five leases while goroutines parse JSON.
func (s *Served) Busy(w BusyWant, b *Busy) error {
	ctx, cancel := context.WithTimeout(context.Background(), w.Within)
	defer cancel()
	ttl := s.client.TTL()
	*b = Busy{TTL: ttl, Least: ttl}
	leases := make([]*interlock.Lease, 5)
	acquire := func(i int) error {
		lease, err := s.client.Mutex(fmt.Sprint("busy", i)).Acquire(ctx)
		if err == nil {
			leases[i] = lease
		}
		return err
	}
	for i := range leases {
		if err := acquire(i); err != nil {
			return err
		}
	}
	began := time.Now()
	var running, tooLate, latest atomic.Int64 // goroutines; when a probe was too late last, and by how much one was late since then
	var eased atomic.Int64                    // when some of them were taken away
	running.Store(int64(w.Goroutines))
	text := []byte("[" + strings.Repeat(`{"a":[1,2,3,"some text",{"b":null}],"c":1.5},`, 2000) + "1]")
	for i := range w.Goroutines {
		go func() {
			for ctx.Err() == nil && int64(i) < running.Load() {
				var v any
				_ = json.Unmarshal(text, &v)
			}
		}()
	}
	var probing [probes]atomic.Int64 // when the ones that are under way began
	for i := range probing {
		echo, err := newEcho()
		if err != nil {
			return err
		}
		defer echo.Close()
		go func() {
			const pause = 10 * time.Millisecond
			for ctx.Err() == nil {
				before := time.Since(began)
				probing[i].Store(int64(before))
				time.Sleep(pause)
				if _, err := echo.Write([]byte("?")); err != nil {
					return
				}
				if _, err := io.ReadFull(echo, make([]byte, 1)); err != nil {
					return
				}
				now := time.Since(began)
				late := now - before - pause
				if late <= ttl/5 {
					latest.Store(max(latest.Load(), int64(late)))
					continue
				}
				latest.Store(0)
				tooLate.Store(int64(now))
				if last := eased.Load(); now-time.Duration(last) > ttl/2 && eased.CompareAndSwap(last, int64(now)) {
					running.Add(-1 - running.Load()/8)
				}
			}
		}()
	}
	for last := began; ctx.Err() == nil && len(b.Lost) == 0 && b.Judged < time.Duration(w.Judge)*ttl; {
		time.Sleep(10 * time.Millisecond)
		left, lost := ttl, ""
		for i, l := range leases {
			left = min(left, l.Remaining())
			if err := l.Err(); err != nil {
				lost = fmt.Sprint(err)
				_ = acquire(i)
			}
		}
		looked := time.Since(began)
		for i := range probing {
			for time.Duration(probing[i].Load()) < looked && time.Since(began)-looked < 2*ttl {
				time.Sleep(time.Millisecond) // the probe that was under way
			}
		}
		calm := time.Since(began)-time.Duration(tooLate.Load()) > ttl*6/5
		now := time.Now()
		switch {
		case calm:
			b.Judged += now.Sub(last)
			b.Latest = max(b.Latest, time.Duration(latest.Load()))
			b.Least = min(b.Least, left)
			if lost != "" {
				b.Lost = append(b.Lost, lost)
			}
		case lost != "":
			b.Excused++
		}
		last = now
	}
	b.Goroutines = int(max(0, running.Load()))
	cancel()
	for _, l := range leases {
		_ = l.Release()
	}
	return nil
}

// newEcho connects to a server in this process that sends back what it is sent.
func newEcho() (net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	there, err := l.Accept()
	if err != nil {
		c.Close()
		return nil, err
	}
	go func() {
		defer there.Close()
		_, _ = io.Copy(there, there)
	}()
	return c, nil
}
