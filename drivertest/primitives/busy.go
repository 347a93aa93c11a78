package primitives

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock"
)

// busyHolder has a process parse JSON on all processors while it holds. The process is as busy as the promise allows:
// whenever a timer or an echo in it is later, some of its goroutines end. What is lost then is not judged.
var _ = rules.Add(rule{Name: "BusyHolder", Processes: true, Alone: true, Exact: true, Says: []string{
	"A process that is busy loses no lease as long as a timer and an echo over loopback in it are late by a fifth of the TTL at most.",
}}, func(t *trial) {
	m := t.member(max(t.TTL, 2*time.Second))
	var slowest pulse
	stop := slowest.feel(t, t.client())
	var b Busy
	t.OK(m.call("Busy", BusyWant{Goroutines: 16, Judge: 3, Within: limit / 2}, &b), "a process is busy")
	stop()
	felt := slowest.load()
	t.Logf("%+v; an exchange of an idle process took %v at most", b, felt)
	switch {
	case len(b.Lost) > 0 && felt > b.TTL/5:
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
				if now-time.Duration(tooLate.Swap(int64(now))) > ttl/2 {
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
