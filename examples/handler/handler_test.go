package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/driver"
)

// stand is a server of the shop, and a client of another process.
type stand struct {
	*shop
	t     *testing.T
	url   string
	other *interlock.Client
}

// deaf has sessions that hear nothing of what others ask of them until their next heartbeat, as
// those of a process that stands still.
type deaf struct{ driver.Driver }

type deafSession struct{ driver.Session }

func (d deaf) Open(ctx context.Context, o driver.SessionOptions) (*driver.Opened, error) {
	s, err := d.Driver.Open(ctx, o)
	if err == nil {
		s.Session = deafSession{s.Session}
	}
	return s, err
}

func (deafSession) Signals(ctx context.Context) (driver.Signal, error) {
	<-ctx.Done()
	return driver.Signal{}, ctx.Err()
}

func open(t *testing.T) *stand { return openWith(t, func(d driver.Driver) driver.Driver { return d }) }

func openWith(t *testing.T, ours func(driver.Driver) driver.Driver) *stand {
	t.Helper()
	dir := t.TempDir()
	client := func(of func(driver.Driver) driver.Driver) *interlock.Client {
		d, err := sqlitelock.New(t.Context(), filepath.Join(dir, "locks.db"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := interlock.New(t.Context(), of(d), interlock.TTL(2*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	s, err := openShop(t.Context(), client(ours), filepath.Join(dir, "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.db.Close() })
	s.wait = time.Minute
	server := httptest.NewServer(s.routes())
	t.Cleanup(server.Close)
	return &stand{s, t, server.URL, client(func(d driver.Driver) driver.Driver { return d })}
}

// buy asks for one of an item, with a key of its own.
func (s *stand) buy(item string) (*http.Response, error) { return s.buyOnce(item, rand.Text()) }

// buyOnce asks with an Idempotency-Key.
func (s *stand) buyOnce(item, key string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(s.t.Context(), "POST", s.url+"/items/"+item+"/sales", nil)
	if err != nil {
		return nil, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	_, err = io.Copy(io.Discard, reply.Body)
	return reply, err
}

// buys asks for one of item 42, and fails if the status is another one.
func (s *stand) buys(want int) {
	s.t.Helper()
	reply, err := s.buy("42")
	if err != nil {
		s.t.Fatal(err)
	}
	if reply.StatusCode != want {
		s.t.Fatalf("the status is %s, want %d", reply.Status, want)
	}
	again := want == http.StatusTooManyRequests || want == http.StatusServiceUnavailable
	if again != (reply.Header.Get("Retry-After") != "") {
		s.t.Errorf("%s: Retry-After is %q", reply.Status, reply.Header.Get("Retry-After"))
	}
}

func (s *stand) stock(want int) {
	s.t.Helper()
	var got int
	if err := s.db.QueryRowContext(s.t.Context(), "SELECT stock FROM items WHERE id = '42'").Scan(&got); err != nil {
		s.t.Fatal(err)
	}
	if got != want {
		s.t.Errorf("the stock is %d, want %d", got, want)
	}
}

// leaseID is that of whoever holds the lock of item 42.
func (s *stand) leaseID() (string, error) {
	q, err := s.other.Admin().Queue(context.Background(), "items/42")
	if err == nil && len(q.Holders) == 0 {
		err = errors.New("nobody holds the item")
	}
	if err != nil {
		return "", err
	}
	return q.Holders[0].ID, nil
}

// evict takes the lock of item 42 from whoever holds it. By force it passes on at once.
func (s *stand) evict(force bool) error {
	id, err := s.leaseID()
	if err != nil {
		return err
	}
	return s.other.Admin().Evict(context.Background(), "items/42", id, force)
}

// once has pay do something at its first call.
func (s *stand) once(f func(ctx context.Context) error) {
	var first sync.Once
	s.pay = func(ctx context.Context, _ string) (err error) {
		first.Do(func() { err = f(ctx) })
		return err
	}
}

func TestManyBuyersGetExactlyTheStock(t *testing.T) {
	s := open(t)
	s.pay = func(context.Context, string) error { return nil }
	const buyers = 25
	codes := make([]int, buyers)
	var all sync.WaitGroup
	for i := range buyers {
		all.Go(func() {
			reply, err := s.buy("42")
			if err != nil {
				t.Error(err)
				return
			}
			codes[i] = reply.StatusCode
		})
	}
	all.Wait()
	count := map[int]int{}
	for _, code := range codes {
		count[code]++
	}
	if count[http.StatusOK] != 10 || count[http.StatusConflict] != buyers-10 {
		t.Errorf("statuses: %v", count)
	}
	s.stock(0)
}

func TestAnItemThatAnotherHoldsIsTooManyRequests(t *testing.T) {
	s := open(t)
	s.wait = 2 * time.Second // enough to hear that another holds it
	s.once(func(context.Context) error { return nil })
	lease, err := s.other.Mutex("items/42").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.buys(http.StatusTooManyRequests)
	if err := lease.Release(); err != nil {
		t.Fatal(err)
	}
	s.buys(http.StatusOK)
	s.stock(9)
}

func TestAnAbsentBackendIsServiceUnavailable(t *testing.T) {
	world := memlock.NewWorld()
	backend := world.Driver()
	c, err := interlock.New(t.Context(), backend)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	backend.Faults().Cut()
	defer backend.Faults().Heal()
	_, err = c.Mutex("items/42", interlock.Wait(10*time.Millisecond)).Acquire(t.Context())
	if code := status(err); code != http.StatusServiceUnavailable {
		t.Errorf("%v: the status is %d", err, code)
	}
}

func TestAnItemThatDoesNotExistIsNotFound(t *testing.T) {
	s := open(t)
	for _, item := range []string{"43", "%7Bx%7D", strings.Repeat("x", 300)} {
		reply, err := s.buy(item)
		if err != nil {
			t.Fatal(err)
		}
		if reply.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", item, reply.Status)
		}
	}
}

// The lock is lost in the middle, and the work looks at its context: nothing is written.
func TestALossInTheMiddleEndsTheWork(t *testing.T) {
	s := open(t)
	s.once(func(ctx context.Context) error {
		if err := s.evict(false); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Minute):
			return errors.New("the context did not end though the lock was lost")
		}
	})
	s.buys(http.StatusServiceUnavailable)
	s.stock(10)
	s.buys(http.StatusOK)
	s.stock(9)
}

// The lock is lost in the middle, and the process does not hear of it, as if it had been stopped.
// Another sells meanwhile. The late write is refused: it would put back what the other has sold.
func TestALateWriteIsRefused(t *testing.T) {
	s := openWith(t, func(d driver.Driver) driver.Driver { return deaf{d} })
	s.once(func(context.Context) error {
		if err := s.evict(true); err != nil {
			return err
		}
		next := *s.shop
		next.locks = s.other
		next.pay = func(context.Context, string) error { return nil }
		return next.locks.Mutex("items/42", interlock.Wait(time.Minute)).Do(context.Background(), func(ctx context.Context) error {
			_, err := next.take(ctx, "42", "the next")
			return err
		})
	})
	s.buys(http.StatusServiceUnavailable)
	s.stock(9)
}

// A write that was checked counts, though the lock was lost before it was released: a client that
// is told to try again would buy twice.
func TestASaleThatWasWrittenCounts(t *testing.T) {
	s := openWith(t, func(d driver.Driver) driver.Driver { return deaf{d} })
	s.once(func(context.Context) error { return s.evict(true) })
	s.buys(http.StatusOK)
	s.stock(9)
}

// However often a request with one key is sent, and at the same time, it pays once and sells one.
func TestARequestWithAKeySellsOne(t *testing.T) {
	s := open(t)
	var paid atomic.Int64
	s.pay = func(context.Context, string) error { paid.Add(1); return nil }
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			reply, err := s.buyOnce("42", "key")
			if err != nil || reply.StatusCode != http.StatusOK {
				t.Error(reply, err)
			}
		})
	}
	all.Wait()
	s.stock(9)
	if paid.Load() != 1 {
		t.Errorf("paid %d times", paid.Load())
	}
	if _, err := s.db.ExecContext(t.Context(), "INSERT INTO items (id, stock) VALUES ('43', 10)"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		item, key string
		want      int
	}{{"42", "key", 200}, {"43", "key", 422}, {"43", strings.Repeat("x", 600), 400}, {"43", "", 400}, {"42", "another", 200}} {
		reply, err := s.buyOnce(c.item, c.key)
		if err != nil || reply.StatusCode != c.want {
			t.Errorf("item %s with key %.10s: got %v, %v; want %d", c.item, c.key, reply.Status, err, c.want)
		}
	}
	s.stock(8)
}

func TestAClientThatGoesAwayBuysNothing(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	s.once(func(ctx context.Context) error {
		defer close(ended)
		cancel()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/items/42/sales", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "gone")
	if _, err := http.DefaultClient.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the context of the request did not end")
	}
	s.buys(http.StatusOK) // the lock is free
	s.stock(9)
}

// The server comes to an end when it is asked to.
func TestTheServerEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serve(ctx, "mem:", filepath.Join(dir, "shop.db"), "127.0.0.1:0"); err == nil {
		t.Error("it began although its context had ended")
	}
	ctx, cancel = context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, "mem:", filepath.Join(dir, "shop.db"), "127.0.0.1:0") }()
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it did not end")
	}
}
