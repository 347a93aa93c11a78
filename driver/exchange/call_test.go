package exchange

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

// crowded is a store whose exchanges last until the test lets them end.
type crowded struct {
	staged
	begun chan string
	end   chan struct{}
	many  *atomic.Int32 // tickets of the last withdrawal

	refuse *atomic.Int64 // of the last Leave
}

func (c crowded) busy(ctx context.Context, what string) error {
	c.begun <- what
	select {
	case <-c.end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c crowded) Join(ctx context.Context, j Join) (Status, error) {
	return Status{State: Waiting}, c.busy(ctx, "join")
}

func (c crowded) Leave(ctx context.Context, l Leave) (bool, error) {
	c.refuse.Store(int64(l.Tombstone))
	return false, c.busy(ctx, "leave")
}

func (c crowded) Withdraw(ctx context.Context, _, _ string, ids []string, _ bool) ([]bool, bool, error) {
	c.many.Store(int32(len(ids)))
	return make([]bool, len(ids)), false, c.busy(ctx, "withdraw")
}

func crowd(t *testing.T) (crowded, *session) {
	c := crowded{begun: make(chan string, 100), end: make(chan struct{}), many: new(atomic.Int32), refuse: new(atomic.Int64)}
	d := New(c, NewMailbox())
	t.Cleanup(func() { _ = d.Close() })
	opened, err := d.Open(t.Context(), driver.SessionOptions{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return c, opened.(*session)
}

func another() driver.Request {
	r := mutex
	r.ID = NewID()
	return r
}

func ticketOf(r driver.Request) driver.Ticket { return driver.Ticket{ID: r.ID, Queue: r.Queue} }

// Promise: an exchange whose caller gives up keeps its connection until it ends, and the
// caller does not wait for that. One that never ends is ended after a while.
func TestAnExchangeGoesOnWithoutItsCaller(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		c, s := crowd(t)
		s.d.Limit(NewLimiter(1, 0, 0))
		for _, ends := range []bool{true, false} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			if _, err := s.Join(ctx, another()); err != context.DeadlineExceeded || time.Since(began) != time.Second {
				t.Errorf("a caller that gives up: %v after %v", err, time.Since(began))
			}
			cancel()
			<-c.begun
			next := make(chan error, 1)
			go func() {
				_, err := s.Join(t.Context(), another())
				next <- err
			}()
			synctest.Wait()
			if len(c.begun) > 0 {
				t.Error("another exchange begins while the connection is not free")
			}
			if ends {
				c.end <- struct{}{}
			} else {
				time.Sleep(Linger)
			}
			synctest.Wait()
			if len(c.begun) != 1 {
				t.Fatal("the connection does not get free")
			}
			<-c.begun
			c.end <- struct{}{}
			if err := <-next; err != nil {
				t.Error(err)
			}
		}
	})
}

// Promise: a Join that is repeated comes after the first one, which goes on without its
// caller: otherwise it could find no ticket, and then there would be one.
func TestARepeatedJoinComesAfterTheFirst(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		c, s := crowd(t)
		s.d.Limit(NewLimiter(2, 0, 0))
		r := another()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Join(ctx, r); err != context.DeadlineExceeded {
			t.Error(err)
		}
		<-c.begun
		r.Retry = true
		again := make(chan error, 1)
		go func() {
			_, err := s.Join(t.Context(), r)
			again <- err
		}()
		synctest.Wait()
		if len(c.begun) > 0 {
			t.Error("it is sent beside the first one")
		}
		c.end <- struct{}{}
		synctest.Wait()
		if len(c.begun) != 1 {
			t.Fatal("it is not sent")
		}
		close(c.end)
		if err := <-again; err != nil {
			t.Error(err)
		}
	})
}

// Promise: a Join that was given up before it got a connection is not sent, and its Leave
// is no exchange. Tried again it is not taken for one that may have been sent.
func TestAJoinThatWasNeverSent(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		c, s := crowd(t)
		s.d.Limit(NewLimiter(1, 0, 0))
		go func() { _, _ = s.Join(t.Context(), another()) }()
		<-c.begun
		r := another()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Join(ctx, r); err != context.DeadlineExceeded {
			t.Error(err)
		}
		r.Retry = true
		if p, _, err := s.begin(&r); err != nil || r.Retry {
			t.Errorf("the second try is taken for a repetition: %v, %v", r.Retry, err)
		} else {
			p.underWay--
		}
		before := s.d.Exchanges()
		if err := s.Leave(t.Context(), ticketOf(r), true); err != driver.ErrGone {
			t.Errorf("Leave: %v", err)
		}
		r.Retry = true
		if _, err := s.Join(t.Context(), r); err != driver.ErrGone {
			t.Errorf("a Join after its Leave: %v", err)
		}
		if n := s.d.Exchanges() - before; n != 0 {
			t.Errorf("%d exchanges for a ticket that was never there", n)
		}
		close(c.end)
	})
}

// Promise: a Join whose caller gives up at the moment at which it gets a connection may be
// sent: then its Leave is an exchange, which has it refused.
func TestAJoinThatIsGivenUpAsItIsSent(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		for range 40 {
			c, s := crowd(t)
			s.d.Limit(NewLimiter(1, 0, 0))
			go func() { _, _ = s.Join(t.Context(), another()) }()
			<-c.begun
			r := another()
			ctx, cancel := context.WithCancel(t.Context())
			joined := make(chan error, 1)
			go func() {
				_, err := s.Join(ctx, r)
				joined <- err
			}()
			synctest.Wait()
			<-s.d.limiter.shared // the connection is free
			cancel()
			<-joined
			synctest.Wait()
			leaves, end := context.WithTimeout(t.Context(), time.Minute)
			go func() { _ = s.Leave(leaves, ticketOf(r), true) }()
			s.d.limiter.shared <- struct{}{} // of the first Join
			close(c.end)
			synctest.Wait()
			if came := len(c.begun) > 0; came && c.refuse.Load() == 0 {
				t.Fatal("a Join that was sent is not refused by the Leave that follows")
			}
			end()
		}
	})
}

// Promise: however many come to a queue at the same time, two Joins are under way there, and
// they keep nobody from other queues. Who gives up before his turn has come sends nothing.
func TestJoinsOfAQueueTakeTurns(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		c, s := crowd(t)
		impatient, giveUp := context.WithCancel(t.Context())
		var patient, others sync.WaitGroup
		for range 3 {
			patient.Go(func() {
				if _, err := s.Join(t.Context(), another()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for range 10 {
			others.Go(func() {
				if _, err := s.Join(impatient, another()); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		patient.Go(func() {
			r := another()
			r.Queue = "other"
			if _, err := s.Join(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if n := len(c.begun); n != 2+1 {
			t.Errorf("%d Joins are under way, want two and that of the other queue", n)
		}
		giveUp()
		others.Wait()
		close(c.end)
		patient.Wait()
		synctest.Wait()
		if n := len(c.begun); n != 3+1 || len(s.d.joins.queues) != 0 {
			t.Errorf("%d Joins were sent, %d queues are kept in mind; want the four that waited, and none", n, len(s.d.joins.queues))
		}
	})
}

// Promise: tickets that are withdrawn while others are share one exchange, which joins keep
// from no connection; each is told what became of it.
func TestWithdrawalsAreGathered(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		c, s := crowd(t)
		s.d.Limit(NewLimiter(1, 0, 1))
		var all []driver.Request
		for range 11 {
			r := another()
			all = append(all, r)
			joined := make(chan error, 1)
			go func() {
				_, err := s.Join(t.Context(), r)
				joined <- err
			}()
			<-c.begun
			c.end <- struct{}{}
			if err := <-joined; err != nil {
				t.Fatal(err)
			}
		}
		go func() { _, _ = s.Join(t.Context(), another()) }()
		<-c.begun // it takes the only connection for calls
		var leaving sync.WaitGroup
		leave := func(r driver.Request) {
			leaving.Go(func() {
				if err := s.Leave(t.Context(), ticketOf(r), true); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		leave(all[0])
		if len(c.begun) != 1 || c.many.Load() != 1 {
			t.Fatalf("%d exchanges for the first, of %d", len(c.begun), c.many.Load())
		}
		for _, r := range all[1:] {
			leave(r)
		}
		close(c.end)
		leaving.Wait()
		synctest.Wait()
		if n := len(c.begun); n != 2 || c.many.Load() != 10 {
			t.Errorf("%d exchanges, the last for %d tickets", n, c.many.Load())
		}
	})
}
