package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/zktest"
)

// account is who holds, by the word of the holders themselves.
type account struct {
	t                *testing.T
	mu               sync.Mutex
	writers, readers map[string]driver.Ticket
	last             uint64
	grants, changes  atomic.Int64
}

func (a *account) enter(r driver.Request, k driver.Ticket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	writes := r.Units > 1
	if len(a.writers) > 0 || writes && len(a.readers) > 0 {
		a.t.Errorf("%+v beside %v %v", k, a.writers, a.readers)
	}
	if !writes {
		a.readers[k.ID] = k
		return
	}
	if k.Token <= a.last {
		a.t.Errorf("token %d after %d", k.Token, a.last)
	}
	a.last, a.writers[k.ID] = k.Token, k
}

func (a *account) exit(k driver.Ticket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.writers, k.ID)
	delete(a.readers, k.ID)
}

// Promise: connections that are cut, leaders that are killed, calls that are cancelled at any moment and an operator
// who evicts those who wait, or removes them by hand, leave one writer at a time or readers alone, tokens that
// grow, nobody who waits for ever, no ticket behind, and each change of a value made once. Callers repeat what
// failed. ZKLOCK_CYCLES makes it longer.
func TestChaos(t *testing.T) {
	t.Parallel()
	t.Run("connections are cut", func(t *testing.T) {
		t.Parallel()
		s := zktest.Start(t, zktest.Tick(time.Second))
		chaotic(t, []string{s.Addr}, func(all []*zktest.Proxy, done <-chan struct{}) {
			for ended(done, time.Duration(rand.IntN(400))*time.Millisecond) == nil {
				all[rand.IntN(len(all))].Cut()
			}
		})
	})
	t.Run("leaders are killed", func(t *testing.T) {
		t.Parallel()
		e := zktest.StartEnsemble(t, 3)
		chaotic(t, e.Addrs(), func([]*zktest.Proxy, <-chan struct{}) {
			for range repeated(t, "ZKLOCK_ELECTIONS", 3) {
				time.Sleep(rand.N(time.Second))
				dead := e.KillLeader()
				e.Leader() // another one serves
				e.Restart(dead)
				e.Leader() // all three serve
			}
		})
	})
}

// chaotic has four clients use one lock and one value until they have had their turns and the mischief is done.
func chaotic(t *testing.T, addrs []string, mischief func(all []*zktest.Proxy, done <-chan struct{})) {
	cycles := repeated(t, "ZKLOCK_CYCLES", 20)
	raw := connected(t, addrs...)
	a := &account{t: t, writers: map[string]driver.Ticket{}, readers: map[string]driver.Ticket{}}
	done, mischiefDone := make(chan struct{}), make(chan struct{})
	var workers, others sync.WaitGroup
	var evicted, removed atomic.Int64
	operator := opened(t, strings.Join(addrs, ","))
	var vias []*zktest.Proxy
	for range 4 {
		var near []string
		for _, addr := range addrs {
			vias = append(vias, zktest.NewProxy(t, addr))
			near = append(near, vias[len(vias)-1].Addr)
		}
		d := opened(t, strings.Join(near, ","))
		w := &worker{account: a, d: d, s: session(t, d, 20*time.Second), known: map[string]driver.Ticket{}}
		others.Go(func() { w.renew(done) })
		for range 3 {
			workers.Go(func() {
				for n := 0; n < cycles || ended(mischiefDone, 0) == nil && len(addrs) > 1; n++ {
					w.once()
					w.count()
				}
			})
		}
	}
	go func() { defer close(mischiefDone); mischief(vias, done) }()
	others.Go(func() {
		for ended(done, 20*time.Millisecond) == nil {
			evicted.Add(evict(operator))
		}
	})
	others.Go(func() {
		for ended(done, 20*time.Millisecond) == nil {
			removed.Add(removeByHand(raw))
		}
	})
	workers.Wait()
	close(done)
	others.Wait()
	<-mischiefDone
	t.Logf("%d grants, %d evictions, %d removed by hand, %d changes", a.grants.Load(), evicted.Load(), removed.Load(), a.changes.Load())
	if a.grants.Load() == 0 {
		t.Error("nobody has held")
	}
	if c, err := operator.Load(limited(t), "count"); err != nil || string(c.Value) != fmt.Sprint(a.changes.Load()) {
		t.Errorf("the value is %q, %v, after %d changes", c.Value, err, a.changes.Load())
	}
	empties(t, raw)
}

func ended(done <-chan struct{}, pause time.Duration) error {
	select {
	case <-done:
		return context.Canceled
	case <-time.After(pause):
		return nil
	}
}

// worker is a session and its tickets.
type worker struct {
	*account
	d driver.Driver
	s *driver.Opened

	mu    sync.Mutex
	known map[string]driver.Ticket
}

func (w *worker) renew(done <-chan struct{}) {
	for ended(done, w.s.TTL/40) == nil {
		var known []driver.Ticket
		w.mu.Lock()
		for _, k := range w.known {
			known = append(known, k)
		}
		w.mu.Unlock()
		if _, err := w.s.Renew(context.Background(), known); errors.Is(err, driver.ErrSession) {
			w.t.Error("a session is lost")
			return
		}
	}
}

func (w *worker) note(k driver.Ticket, stands bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.known, k.ID); stands {
		w.known[k.ID] = k
	}
}

// once waits for the lock, holds it for a moment, and leaves; or gives up before.
func (w *worker) once() {
	r := writer("q", someID())
	if r.ReportDeath = rand.IntN(3) == 0; rand.IntN(4) == 0 {
		r.Units = 1
	}
	w.note(driver.Ticket{ID: r.ID, Queue: "q"}, true)
	patience := busy.Bound(time.Minute)
	if rand.IntN(3) == 0 {
		patience = time.Duration(rand.IntN(20000)) * time.Microsecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	k, err := w.acquire(ctx, r)
	switch {
	case err == nil:
		w.grants.Add(1)
		w.enter(r, k)
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		w.exit(k)
	case patience > time.Second && !errors.Is(err, driver.ErrGone):
		w.t.Errorf("it has waited for %v: %v", patience, err)
	}
	for err = errors.ErrUnsupported; err != nil && !errors.Is(err, driver.ErrGone); {
		if err = w.s.Leave(context.Background(), driver.Ticket{ID: r.ID, Queue: "q"}, true); errors.Is(err, driver.ErrSession) {
			w.t.Error("a session is lost")
			break
		}
	}
	w.note(driver.Ticket{ID: r.ID}, false)
}

// count adds one to a value, and repeats what has no answer.
func (w *worker) count() {
	for ctx := limited(w.t); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		c, err := w.d.Load(ctx, "count")
		if err != nil {
			continue
		}
		var n int
		_, _ = fmt.Sscan(string(c.Value), &n)
		change := driver.Swap{ID: someID(), Name: "count", Version: c.Version, Value: fmt.Append(nil, n+1)}
		for ; ctx.Err() == nil && !errors.Is(err, driver.ErrConflict); time.Sleep(time.Millisecond) {
			if _, err = w.d.Swap(ctx, change); err == nil {
				w.changes.Add(1)
				return
			}
		}
	}
	w.t.Error("a value cannot be changed")
}

func (w *worker) acquire(ctx context.Context, r driver.Request) (k driver.Ticket, err error) {
	for k, err = w.s.Join(ctx, r); ; {
		switch {
		case err == nil && k.Held || errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrSession):
			return k, err
		case ctx.Err() != nil:
			return k, ctx.Err()
		case err == nil:
			k, err = w.s.Await(ctx, k)
		default:
			time.Sleep(5 * time.Millisecond)
			r.Retry = true
			k, err = w.s.Join(ctx, r)
		}
	}
}

// evict removes one who waits, unless it is served at that moment.
func evict(d driver.Driver) int64 {
	q, err := d.Follow(context.Background(), "q", "")
	if err != nil {
		return 0
	}
	q.Members = slices.DeleteFunc(q.Members, func(m driver.Member) bool { return m.Held })
	if len(q.Members) == 0 {
		return 0
	}
	if d.Ask(context.Background(), "q", q.Members[rand.IntN(len(q.Members))].ID, driver.Evict) != nil {
		return 0
	}
	return 1
}

// removeByHand deletes the node of one who waits, as long as all in front of it stand.
func removeByHand(c *zk.Conn) int64 {
	line, _, err := c.Children("/a/q")
	if err != nil || len(line) < 2 {
		return 0
	}
	slices.SortFunc(line, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	i := 1 + rand.IntN(len(line)-1)
	if !slices.ContainsFunc(line[:i+1], func(n string) bool { return strings.Contains(n, "__WRIT__") }) {
		return 0 // it holds
	}
	var ops []any
	for _, n := range line[:i] {
		ops = append(ops, &zk.CheckVersionRequest{Path: "/a/q/" + n, Version: -1})
	}
	if _, err := c.Multi(append(ops, &zk.DeleteRequest{Path: "/a/q/" + line[i], Version: -1})...); err != nil {
		return 0
	}
	return 1
}
