package main

import (
	"context"
	"crypto/rand"
	"errors"
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
	"github.com/interlock-go/interlock/internal/errtest"
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
		d := errtest.Must(sqlitelock.New(t.Context(), filepath.Join(dir, "locks.db")))(t)
		c := errtest.Must(interlock.New(t.Context(), of(d), interlock.TTL(2*time.Minute)))(t)
		t.Cleanup(func() { errtest.Is(t, c.Close(), nil) })
		return c
	}
	s := errtest.Must(openShop(t.Context(), client(ours), filepath.Join(dir, "shop.db")))(t)
	t.Cleanup(func() { s.db.Close() })
	s.wait = time.Minute
	server := httptest.NewServer(s.routes())
	t.Cleanup(server.Close)
	return &stand{s, t, server.URL, client(func(d driver.Driver) driver.Driver { return d })}
}

// buy asks for one of an item, with an Idempotency-Key, and returns the status. One after which the same request may
// come again says so.
func (s *stand) buy(item, key string) int {
	s.t.Helper()
	r := errtest.Must(http.NewRequestWithContext(s.t.Context(), "POST", s.url+"/items/"+item+"/sales", nil))(s.t)
	r.Header.Set("Idempotency-Key", key)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	_ = reply.Body.Close()
	again := reply.StatusCode == http.StatusTooManyRequests || reply.StatusCode == http.StatusServiceUnavailable
	if again != (reply.Header.Get("Retry-After") != "") {
		s.t.Errorf("%s: Retry-After is %q", reply.Status, reply.Header.Get("Retry-After"))
	}
	return reply.StatusCode
}

// buys asks for one of item 42, with a key of its own, and looks at the status and at the stock.
func (s *stand) buys(want, left int) {
	s.t.Helper()
	if got := s.buy("42", rand.Text()); got != want {
		s.t.Fatalf("the status is %d, want %d", got, want)
	}
	s.stock(left)
}

func (s *stand) stock(want int) {
	s.t.Helper()
	var got int
	errtest.None(s.t, s.db.QueryRowContext(s.t.Context(), "SELECT stock FROM items WHERE id = '42'").Scan(&got))
	if got != want {
		s.t.Errorf("the stock is %d, want %d", got, want)
	}
}

// evict takes the lock of item 42 from its holder. By force it passes on at once.
func (s *stand) evict(force bool) error {
	q, err := s.other.Admin().Queue(context.Background(), "items/42")
	if err == nil && len(q.Holders) == 0 {
		err = errors.New("the item is free")
	}
	if err != nil {
		return err
	}
	return s.other.Admin().Evict(context.Background(), "items/42", q.Holders[0].ID, force)
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
		all.Go(func() { codes[i] = s.buy("42", rand.Text()) })
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
	lease := errtest.Must(s.other.Mutex("items/42").Acquire(t.Context()))(t)
	s.buys(http.StatusTooManyRequests, 10)
	errtest.None(t, lease.Release())
	s.buys(http.StatusOK, 9)
}

func TestAnAbsentBackendIsServiceUnavailable(t *testing.T) {
	backend := memlock.NewWorld().Driver()
	c := errtest.Must(interlock.New(t.Context(), backend))(t)
	defer c.Close()
	backend.Faults().Cut()
	defer backend.Faults().Heal()
	_, err := c.Mutex("items/42", interlock.Wait(10*time.Millisecond)).Acquire(t.Context())
	if code := status(err); code != http.StatusServiceUnavailable {
		t.Errorf("%v: the status is %d", err, code)
	}
}

func TestAnItemThatDoesNotExistIsNotFound(t *testing.T) {
	s := open(t)
	for _, item := range []string{"43", "%7Bx%7D", strings.Repeat("x", 300)} {
		if status := s.buy(item, rand.Text()); status != http.StatusNotFound {
			t.Errorf("%s: %d", item, status)
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
	s.buys(http.StatusServiceUnavailable, 10)
	s.buys(http.StatusOK, 9)
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
	s.buys(http.StatusServiceUnavailable, 9)
}

// A write that was checked counts, though the lock was lost before it was released: a client that
// is told to try again would buy twice.
func TestASaleThatWasWrittenCounts(t *testing.T) {
	s := openWith(t, func(d driver.Driver) driver.Driver { return deaf{d} })
	s.once(func(context.Context) error { return s.evict(true) })
	s.buys(http.StatusOK, 9)
}

// However often a request with one key is sent, and at the same time, it pays once and sells one.
func TestARequestWithAKeySellsOne(t *testing.T) {
	s := open(t)
	var paid atomic.Int64
	s.pay = func(context.Context, string) error { paid.Add(1); return nil }
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if status := s.buy("42", "key"); status != http.StatusOK {
				t.Error(status)
			}
		})
	}
	all.Wait()
	s.stock(9)
	if paid.Load() != 1 {
		t.Errorf("paid %d times", paid.Load())
	}
	errtest.Must(s.db.ExecContext(t.Context(), "INSERT INTO items (id, stock) VALUES ('43', 10)"))(t)
	for _, c := range []struct {
		item, key string
		want      int
	}{{"42", "key", 200}, {"43", "key", 422}, {"43", strings.Repeat("x", 600), 400}, {"43", "", 400}, {"42", "another", 200}} {
		if got := s.buy(c.item, c.key); got != c.want {
			t.Errorf("item %s with key %.10s: got %d, want %d", c.item, c.key, got, c.want)
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
	r := errtest.Must(http.NewRequestWithContext(ctx, "POST", s.url+"/items/42/sales", nil))(t)
	r.Header.Set("Idempotency-Key", "gone")
	if _, err := http.DefaultClient.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	errtest.Received(t, "the end of the request's context", ended)
	s.buys(http.StatusOK, 9) // the lock is free
}

// The server comes to an end when it is asked to.
func TestTheServerEndsWithItsContext(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serve(ctx, "mem:", "shop.db", "127.0.0.1:0"); err == nil {
		t.Error("it began although its context had ended")
	}
	ctx, cancel = context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, "mem:", "shop.db", "127.0.0.1:0") }()
	cancel()
	_ = errtest.Received(t, "the end of the server", ended)
}
