package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/testserver"
)

// via opens a driver behind a network of its own.
func (t *trial) via() (driver.Driver, *suite.Network) {
	n := &suite.Network{TB: t}
	d, err := t.world.Via(t.Ctx, n.At)
	t.OK(err, "open a driver")
	t.closes(func() error { n.Restore(); return d.Close() })
	return d, n
}

// keepalive renews as package interlock does: every third of the TTL, with as much time for each try, again sooner if
// it fails or has proven what is old by now, and for no longer than the first ticket stands by the local clock. It
// calls each after a success.
func (c *client) keepalive(each func(began driver.Instant, answer []driver.Renewed), known ...driver.Ticket) {
	every, proof := c.TTL/3, known[0].Proof
	c.t.Calls.Go(func() {
		for c.t.Ctx.Err() == nil && c.driver.Now() < proof.Add(c.TTL) {
			began := c.driver.Now()
			ctx, cancel := context.WithTimeout(c.t.Ctx, every)
			answer, err := c.Renew(ctx, known)
			cancel()
			if errors.Is(err, driver.ErrSession) {
				return
			}
			took, pause := c.driver.Now().Sub(began), every/16
			i := slices.IndexFunc(answer, func(r driver.Renewed) bool { return r.ID == known[0].ID && r.State == driver.Kept })
			if err == nil && i >= 0 {
				proof = max(proof, answer[i].Proof)
				pause = max(pause, every/4-took, min(every, proof.Add(c.TTL*3/10).Sub(began))-took)
				if each != nil {
					each(began, answer)
				}
			}
			time.Sleep(pause)
		}
	})
}

// A follower waits for all that can come to a client.
type follower struct {
	*client
	network *suite.Network
	name    string
	own     driver.Ticket // is held
	front   driver.Ticket // of another client, behind which one of this one waits
	cell    driver.Cell

	mu    sync.Mutex
	since driver.Instant // from when on renewals count
	came  map[string]driver.Instant
}

func (f *follower) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.came[what]; !known {
		f.came[what] = f.driver.Now()
	}
}

func (t *trial) follower(plain *client, name string, ttl time.Duration) *follower {
	d, n := t.via()
	f := &follower{client: t.session(d, ttl), network: n, name: name, since: math.MaxInt64, came: map[string]driver.Instant{}}
	f.own = f.hold(t.exclusive(name + "/own"))
	f.front = plain.hold(t.exclusive(name + "/next"))
	waiting := f.wait(t.exclusive(name + "/next"))
	f.keepalive(func(began driver.Instant, _ []driver.Renewed) {
		f.mu.Lock()
		counts := began >= f.since
		f.mu.Unlock()
		if counts {
			f.note("a renewal")
		}
	}, f.own, waiting)
	f.cell = t.swap(plain.driver, set(name, 0, "v"))
	queue := t.snapshot(plain.driver, name+"/queue")
	for what, wait := range map[string]func() error{
		"a grant":         func() error { _, err := f.Await(t.Ctx, waiting); return err },
		"news of a cell":  func() error { _, err := d.Watch(t.Ctx, name, f.cell.Version); return err },
		"news of a queue": func() error { _, err := d.Follow(t.Ctx, name+"/queue", queue.Version); return err },
		"a signal": func() error {
			return suite.Err(hears(t.Ctx, f, func(s driver.Signal) bool { return s.Demand == driver.Revoke }))
		},
	} {
		t.Calls.Go(func() {
			if err := wait(); err == nil {
				f.note(what)
			} else if t.Ctx.Err() == nil {
				t.Errorf("waiting for %s, behind a connection that may be silent: %v", what, err)
			}
		})
	}
	return f
}

// missing are what has not come within so much time, and how long the last took that has.
func (f *follower) missing(within time.Duration) (all []string, last time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, what := range []string{"a renewal", "a grant", "a signal", "news of a cell", "news of a queue"} {
		at, came := f.came[what]
		took := at.Sub(f.since)
		if !came || took > within {
			all = append(all, what)
		}
		if came {
			last = max(last, took)
		}
	}
	return all, last
}

// Each connection of a client is silent in turn, each for another client: packets are dropped, and no end comes.
var _ = rules.Add(rule{Name: "Deaf", Long: true, Hook: "Via", Says: []string{
	"What was to come over a connection that is silent, though nobody has ended it, comes within two TTLs of the session.",
}}, func(t *trial) {
	ttl := max(2*t.TTL, 2*time.Second)
	ttl = min(2*ttl, busy.Bound(ttl)) // a busy machine takes longer for a new connection
	plain := t.client()
	all := []*follower{t.follower(plain, "none", ttl)} // which says how late things are anyway
	time.Sleep(ttl / 2)
	for i := range min(all[0].network.Connections(), 8) {
		all = append(all, t.follower(plain, fmt.Sprint("connection ", i), ttl))
	}
	time.Sleep(ttl / 2)
	for i, f := range all {
		f.network.Silence(i - 1)
		f.mu.Lock()
		f.since = f.driver.Now()
		f.mu.Unlock()
	}
	for _, f := range all {
		plain.leave(f.front)
		t.swap(plain.driver, set(f.name, f.cell.Version, "w"))
		plain.hold(t.exclusive(f.name + "/queue"))
		t.OK(suite.Unless(plain.driver.Ask(t.Ctx, f.own.Queue, f.own.ID, driver.Revoke), driver.ErrGone), "Ask")
	}
	t.Eventually("what comes to a client all of whose connections work", func() bool {
		missing, _ := all[0].missing(limit)
		return len(missing) == 0
	})
	_, usual := all[0].missing(limit)
	bound := 2*ttl + 3*usual
	time.Sleep(all[0].since.Add(bound).Sub(plain.driver.Now()))
	for _, f := range all[1:] {
		missing, last := f.missing(bound)
		t.Logf("silent is %s: the last came after %v", f.name, last)
		if len(missing) > 0 {
			t.Errorf("silent is %s of %d: within %v (the TTL is %v) have not come: %s", f.name, len(all)-1, bound, ttl, strings.Join(missing, ", "))
		}
		if q := t.snapshot(plain.driver, f.own.Queue); len(q.Members) != 1 || q.Members[0].ID != f.own.ID {
			t.Errorf("silent is %s of %d: the ticket of a client that renews it is lost: %+v", f.name, len(all)-1, q)
		}
	}
})

// No answer comes to a client. It does what package interlock does: it renews for as long as it believes in
// its ticket, and these requests arrive.
var _ = rules.Add(rule{Name: "Mute", Hook: "Via", Says: []string{
	"A client that gets no answers, although its requests arrive, keeps a ticket for no longer than one TTL after its last proof has ended.",
}}, func(t *trial) {
	d, n := t.via()
	a, b, dead := t.session(d, t.TTL), t.client(), t.mortal()
	since := func(name string, c *client) <-chan time.Duration {
		tk := c.hold(t.exclusive(name))
		if c == a {
			a.keepalive(nil, tk)
		}
		next := b.behind(t.exclusive(name))
		took := make(chan time.Duration, 1)
		began := d.Now()
		t.Calls.Go(func() { <-next.done; took <- next.held.Sub(began) })
		return took
	}
	muted := since("muted", a)
	n.Each((*testserver.Proxy).Late)
	usual := <-since("dead", dead) // says how late things are anyway
	bound := 3*t.TTL + 2*max(0, usual-t.TTL)
	select {
	case took := <-muted:
		if t.Logf("after %v, where the next ticket after one that dies is held after %v", took, usual); took > bound {
			t.Fatalf("a client that gets no answers has kept its ticket for %v, with a TTL of %v", took, t.TTL)
		}
	case <-time.After(bound):
		t.Fatalf("a client that gets no answers keeps its ticket for more than %v, with a TTL of %v", bound, t.TTL)
	}
})

// imitations are what answers in the place of a server: what it says to whoever connects, again and again if it
// has no end.
var imitations = map[string]struct {
	says  string
	again bool
}{
	"nothing":               {},
	"a banner":              {says: "220 mail.example ESMTP ready\r\n"},
	"HTTP":                  {says: "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"},
	"HTTP, endless":         {says: "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("[", 64<<10), again: true},
	"errors":                {says: "-ERR a\r\n-ERR b\r\n", again: true},
	"a huge array":          {says: "*2000000000\r\n"},
	"a huge map":            {says: "%1000000000\r\n"},
	"a huge text":           {says: "$2000000000\r\n"},
	"values in values":      {says: strings.Repeat("*1\r\n", 10_000), again: true},
	"an endless line":       {says: "+" + strings.Repeat("A", 64<<10), again: true},
	"a huge row":            {says: "R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05ID\x7f\xff\xff\xf0"},
	"a huge greeting":       {says: "R\x7f\xff\xff\xf0"},
	"a huge error":          {says: "E\x7f\xff\xff\xf0SFATAL\x00"},
	"huge packets":          {says: "\xff\xff\xff\x00\x0a" + strings.Repeat("A", 64<<10), again: true},
	"a huge length":         {says: "\x7f\xff\xff\xff"},
	"a huge frame of HTTP2": {says: "\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff\x00\x00\x00\x00\x00\x01"},
	"endless settings":      {says: strings.Repeat("\x00\x00\x00\x04\x00\x00\x00\x00\x00", 10_000), again: true},
	"zeros":                 {says: strings.Repeat("\x00", 64<<10), again: true},
	"ones":                  {says: strings.Repeat("\xff", 64<<10), again: true},
}

// What answers is something else, says nothing, too much, or endlessly; or it is the server, and its answers are
// changed on the way. If an answer ends the program there is no more to be said.
// Alone: memory is that of the whole process.
var _ = rules.Add(rule{Name: "Impostor", Hook: "Via", Alone: true, Says: []string{
	"Whatever answers in the place of the backend, every call ends with its context, and no answer takes memory without bound.",
}}, func(t *trial) {
	plain := t.client()
	plain.hold(t.exclusive("q"))
	log.SetOutput(io.Discard) // clients log what a server should not have said
	defer log.SetOutput(os.Stderr)
	stop := t.bounded(300 << 20)
	var all sync.WaitGroup
	for name, i := range imitations {
		at := testserver.Answer(t, func(c net.Conn) {
			go func() {
				_, err := io.WriteString(c, i.says)
				for i.again && err == nil {
					_, err = io.WriteString(c, i.says)
				}
			}()
			_, _ = io.Copy(io.Discard, c)
		})
		all.Go(func() {
			if t.useAll(name, func(string) string { return at }) {
				t.Errorf("a session begins where %s answers", name)
			}
		})
	}
	turns := make(chan struct{}, 6) // a client of ZooKeeper has 3 MiB of buffers for each connection
	for seed := range uint64(t.size(128, 16)) {
		n := &suite.Network{TB: t, Filters: func() (requests, replies testserver.Filter) {
			return testserver.Pass, testserver.Garble(seed)
		}}
		turns <- struct{}{}
		all.Go(func() {
			t.useAll(fmt.Sprint("a server garbled by ", seed), n.At)
			n.Each((*testserver.Proxy).Close)
			<-turns
		})
	}
	all.Wait()
	stop()
})

var _ = rules.Add(rule{Name: "SilentHost", Hook: "Via", Says: []string{
	"A host that takes connections and says nothing is given up without the end of a context.",
}}, func(t *trial) {
	at := testserver.Answer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithTimeout(t.Ctx, limit)
	defer cancel()
	d, err := t.world.Via(ctx, func(string) string { return at })
	if err == nil {
		_, err = d.Open(ctx, driver.SessionOptions{TTL: time.Minute})
		_ = d.Close()
	}
	switch {
	case err == nil:
		t.Error("a session begins where nothing answers")
	case ctx.Err() != nil:
		t.Errorf("it is not given up: %v", err)
	}
})

// useAll makes every call, whatever becomes of it, and reports whether there was a session.
func (t *trial) useAll(what string, at func(string) string) (opened bool) {
	ctx, cancel := context.WithTimeout(t.Ctx, 1500*time.Millisecond)
	defer cancel()
	var call atomic.Value
	call.Store("New")
	ended := make(chan struct{})
	t.Calls.Go(func() {
		defer close(ended)
		d, err := t.world.Via(ctx, at)
		if err != nil {
			return
		}
		defer func() { call.Store("Close"); _ = d.Close() }()
		call.Store("Open")
		var s driver.Session
		o, err := d.Open(ctx, driver.SessionOptions{TTL: time.Minute})
		if opened = err == nil; opened {
			s = o
		}
		r := t.exclusive(what)
		tk := driver.Ticket{ID: r.ID, Queue: r.Queue}
		for n := 0; n < 3 && (n == 0 || opened); n++ {
			for name, do := range everyCall(d, s, tk, r, set(what, 0, "v")) {
				call.Store(name)
				brief, stop := context.WithTimeout(ctx, 200*time.Millisecond)
				_ = do(brief)
				stop()
			}
			if opened {
				call.Store("several at once")
				brief, stop := context.WithTimeout(ctx, 200*time.Millisecond)
				atOnce(t, what, brief, s)
				stop()
			}
			call.Store("Check")
			d.Check(ctx)
		}
	})
	select {
	case <-ended:
		return opened
	case <-time.After(limit / 2):
		t.Errorf("%s answers: %s goes on long after the end of its context", what, call.Load())
		return false
	}
}

// atOnce makes changes that may go together.
func atOnce(t *trial, what string, ctx context.Context, s driver.Session) {
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			if tk, err := s.Join(ctx, t.exclusive(fmt.Sprint(what, k))); err == nil {
				_ = s.Leave(ctx, tk, true)
			}
		})
	}
	all.Wait()
}

// bounded looks at the memory of the process until it is stopped, and fails the rule if there is so much more. What
// is garbage counts, too, so it is collected sooner than usual.
func (t *trial) bounded(more uint64) (stop func()) {
	usual := debug.SetGCPercent(20)
	used := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	first, most := used(), uint64(0)
	ctx, cancel := context.WithCancel(t.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			most = max(most, used())
			time.Sleep(time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-done
		debug.SetGCPercent(usual)
		if t.Logf("%d MiB of memory were used, %d before", most>>20, first>>20); most > first+more {
			t.Errorf("%d MiB of memory are used, %d before", most>>20, first>>20)
		}
	}
}
