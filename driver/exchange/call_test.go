package exchange_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

// crowd is a session whose exchanges last until the test lets them end.
type crowd struct {
	*driver.Opened
	d     *exchange.Driver
	begun chan string
	end   chan struct{}
	many  atomic.Int32 // tickets of the last withdrawal
	tombs atomic.Int64 // of the last Leave
}

func (c *crowd) busy(ctx context.Context, what string) error {
	c.begun <- what
	select {
	case <-c.end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{begun: make(chan string, 100), end: make(chan struct{})}
	c.Opened = opened(t, Script{
		Join: func(ctx context.Context, _ exchange.Join) (exchange.Status, error) { return waits, c.busy(ctx, "join") },
		Leave: func(ctx context.Context, l exchange.Leave) (bool, error) {
			c.tombs.Store(int64(l.Tombstone))
			return false, c.busy(ctx, "leave")
		},
		Withdraw: func(ctx context.Context, _ exchange.Session, _ string, ids []string, _ bool) ([]bool, bool, error) {
			c.many.Store(int32(len(ids)))
			return make([]bool, len(ids)), false, c.busy(ctx, "withdraw")
		},
	})
	c.d = exchange.DriverOf(c.Opened)
	return c
}

// Promise: an exchange whose caller gives up keeps its connection until it ends, and the
// caller does not wait for that. One that never ends is ended after a while.
func TestAnExchangeGoesOnWithoutItsCaller(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s := newCrowd(t)
		s.d.Limit(exchange.NewLimiter(1, 0, 0))
		for _, ends := range []bool{true, false} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			if _, err := s.Join(ctx, request()); err != context.DeadlineExceeded || time.Since(began) != time.Second {
				t.Errorf("a caller that gives up: %v after %v", err, time.Since(began))
			}
			cancel()
			<-s.begun
			next := make(chan error, 1)
			go func() {
				_, err := s.Join(t.Context(), request())
				next <- err
			}()
			synctest.Wait()
			if len(s.begun) > 0 {
				t.Error("another exchange begins while the connection is not free")
			}
			if ends {
				s.end <- struct{}{}
			} else {
				time.Sleep(exchange.Linger)
			}
			synctest.Wait()
			if len(s.begun) != 1 {
				t.Fatal("the connection does not get free")
			}
			<-s.begun
			s.end <- struct{}{}
			errtest.Is(t, <-next, nil)
		}
	})
}

// Promise: a Join that is repeated comes after the first one, which goes on without its
// caller: otherwise it could find no ticket, and then there would be one.
func TestARepeatedJoinComesAfterTheFirst(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s := newCrowd(t)
		s.d.Limit(exchange.NewLimiter(2, 0, 0))
		r := request()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Join(ctx, r); err != context.DeadlineExceeded {
			t.Error(err)
		}
		<-s.begun
		r.Retry = true
		again := make(chan error, 1)
		go func() {
			_, err := s.Join(t.Context(), r)
			again <- err
		}()
		synctest.Wait()
		if len(s.begun) > 0 {
			t.Error("it is sent beside the first one")
		}
		s.end <- struct{}{}
		synctest.Wait()
		if len(s.begun) != 1 {
			t.Fatal("it is not sent")
		}
		close(s.end)
		errtest.Is(t, <-again, nil)
	})
}

// Promise: a Join that was given up before it got a connection is not sent, and its Leave
// is no exchange. Tried again it is not taken for one that may have been sent.
func TestAJoinThatWasNeverSent(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s := newCrowd(t)
		s.d.Limit(exchange.NewLimiter(1, 0, 0))
		go func() { _, _ = s.Join(t.Context(), request()) }()
		<-s.begun
		r := request()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Join(ctx, r); err != context.DeadlineExceeded {
			t.Error(err)
		}
		r.Retry = true
		if again, err := exchange.IsRepetition(s.Opened, r); err != nil || again {
			t.Errorf("the second try is taken for a repetition: %v, %v", again, err)
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
		close(s.end)
	})
}

// Promise: a Join whose caller gives up at the moment at which it gets a connection may be
// sent: then its Leave is an exchange, which has it refused.
func TestAJoinThatIsGivenUpAsItIsSent(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		for range 40 {
			s := newCrowd(t)
			limiter := exchange.NewLimiter(1, 0, 0)
			s.d.Limit(limiter)
			go func() { _, _ = s.Join(t.Context(), request()) }()
			<-s.begun
			r := request()
			ctx, cancel := context.WithCancel(t.Context())
			joined := make(chan error, 1)
			go func() {
				_, err := s.Join(ctx, r)
				joined <- err
			}()
			synctest.Wait()
			limiter.Give() // the connection is free
			cancel()
			<-joined
			synctest.Wait()
			leaves, end := context.WithTimeout(t.Context(), time.Minute)
			go func() { _ = s.Leave(leaves, ticketOf(r), true) }()
			limiter.Take() // of the first Join
			close(s.end)
			synctest.Wait()
			if came := len(s.begun) > 0; came && s.tombs.Load() == 0 {
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
		s := newCrowd(t)
		impatient, giveUp := context.WithCancel(t.Context())
		var patient, others sync.WaitGroup
		for range 3 {
			patient.Go(func() {
				if _, err := s.Join(t.Context(), request()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for range 10 {
			others.Go(func() {
				if _, err := s.Join(impatient, request()); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		patient.Go(func() {
			r := request()
			r.Queue = "other"
			if _, err := s.Join(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if n := len(s.begun); n != 2+1 {
			t.Errorf("%d Joins are under way, want two and that of the other queue", n)
		}
		giveUp()
		others.Wait()
		close(s.end)
		patient.Wait()
		synctest.Wait()
		if n := len(s.begun); n != 3+1 || s.d.JoinQueues() != 0 {
			t.Errorf("%d Joins were sent, %d queues are kept in mind; want the four that waited, and none", n, s.d.JoinQueues())
		}
	})
}

// Promise: tickets that are withdrawn while others are share one exchange, which joins keep
// from no connection; each is told what became of it.
func TestWithdrawalsAreGathered(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s := newCrowd(t)
		s.d.Limit(exchange.NewLimiter(1, 0, 1))
		var all []driver.Request
		for range 11 {
			r := request()
			all = append(all, r)
			joined := make(chan error, 1)
			go func() {
				_, err := s.Join(t.Context(), r)
				joined <- err
			}()
			<-s.begun
			s.end <- struct{}{}
			errtest.None(t, <-joined)
		}
		go func() { _, _ = s.Join(t.Context(), request()) }()
		<-s.begun // it takes the only connection for calls
		var leaving sync.WaitGroup
		leave := func(r driver.Request) {
			leaving.Go(func() {
				errtest.Is(t, s.Leave(t.Context(), ticketOf(r), true), nil)
			})
			synctest.Wait()
		}
		leave(all[0])
		if len(s.begun) != 1 || s.many.Load() != 1 {
			t.Fatalf("%d exchanges for the first, of %d", len(s.begun), s.many.Load())
		}
		for _, r := range all[1:] {
			leave(r)
		}
		close(s.end)
		leaving.Wait()
		synctest.Wait()
		if n := len(s.begun); n != 2 || s.many.Load() != 10 {
			t.Errorf("%d exchanges, the last for %d tickets", n, s.many.Load())
		}
		if n := s.d.Lanes(); n != 0 {
			t.Errorf("%d lanes are kept in mind", n)
		}
	})
}

// Promise: a heartbeat does not wait for a connection behind calls.
func TestAHeartbeatBesideManyCalls(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s := newCrowd(t)
		s.d.Limit(exchange.NewLimiter(2, 0, 0))
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := s.Join(t.Context(), request()); err != nil {
					t.Error(err)
				}
			})
		}
		for range 2 {
			<-s.begun
		}
		if _, err := s.Renew(t.Context(), nil); err != nil {
			t.Error(err)
		}
		r := request()
		r.Queue = "other"
		waits, cancel := context.WithCancel(t.Context())
		givesUp := make(chan error, 1)
		go func() {
			_, err := s.Join(waits, r)
			givesUp <- err
		}()
		synctest.Wait()
		if len(s.begun) > 0 {
			t.Error("more calls at once than there are connections for")
		}
		if len(givesUp) > 0 {
			t.Errorf("a call did not wait: %v", <-givesUp)
		}
		cancel()
		if err := <-givesUp; err != context.Canceled {
			t.Errorf("a call that waits for others: %v", err)
		}
		close(s.end)
		for range 3 {
			<-s.begun
		}
		all.Wait()
	})
}

// prompt is a store whose changes are all prompt.
type prompt struct{ *scripted }

func (prompt) Traits() exchange.Traits {
	return exchange.Traits{Prompt: func(exchange.Change) bool { return true }}
}

// Promise: a change that is prompt ends with its caller, or a moment later if its answer comes by then. One that is cut
// keeps its room, since the backend may be busy with it, and those that follow end with their callers.
func TestAPromptChangeEndsAMomentAfterItsCaller(t *testing.T) {
	for within, want := range map[time.Duration]error{exchange.Moment - 1: nil, time.Minute: context.DeadlineExceeded} {
		bubble.Run(t, func(t *testing.T) {
			var sent atomic.Int32
			store := newScripted()
			store.Script.Join = func(ctx context.Context, _ exchange.Join) (exchange.Status, error) {
				sent.Add(1)
				select {
				case <-time.After(time.Second + within):
					return held, nil
				case <-ctx.Done():
					return exchange.Status{}, ctx.Err()
				}
			}
			s := over(t, prompt{store})
			limiter := exchange.NewLimiter(2, 0, 0)
			exchange.DriverOf(s).Limit(limiter)
			join := func() (time.Duration, error) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				_, err := s.Join(ctx, request())
				return time.Since(began), err
			}
			took, err := join()
			if err != want || took != time.Second+min(within, exchange.Moment) {
				t.Errorf("an answer %v after the end of its caller: %v after %v", within, err, took)
			}
			if want == nil {
				return
			}
			if took, err := join(); err != want || took != time.Second {
				t.Errorf("the next one: %v after %v", err, took)
			}
			if took, err := join(); err != want || took != time.Second || sent.Load() != 2 {
				t.Errorf("one without room: %v after %v, %d were sent", err, took, sent.Load())
			}
			time.Sleep(exchange.Linger)
			limiter.Take()
			limiter.Take()
		})
	}
}

// Promise: Close ends a change that is prompt, and waits for it.
func TestCloseEndsAPromptChange(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		ended := false
		store := newScripted()
		store.Script.Join = func(ctx context.Context, _ exchange.Join) (exchange.Status, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
			return exchange.Status{}, ctx.Err()
		}
		s := over(t, prompt{store})
		joined := make(chan error, 1)
		go func() {
			_, err := s.Join(t.Context(), request())
			joined <- err
		}()
		synctest.Wait()
		if err := exchange.DriverOf(s).Close(); err != nil || !ended {
			t.Errorf("Close: %v; the Join has ended: %t", err, ended)
		}
		errtest.Is(t, <-joined, exchange.ErrClosed)
	})
}
