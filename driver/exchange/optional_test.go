package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
)

// Promise: a Join that was certainly not sent is left without an exchange, and cannot come later. If
// an earlier one may have been sent, the backend is asked.
func TestAJoinThatWasNotSentIsLeftWithoutAnExchange(t *testing.T) {
	full := errors.New("the pool is full")
	for _, sentBefore := range []bool{false, true} {
		left, fail := 0, exchange.NotSent(full)
		s := opened(t, exchangetest.Script{
			Join: func(context.Context, exchange.Join) (exchange.Status, error) { return exchange.Status{}, fail },
			Leave: func(_ context.Context, l exchange.Leave) (bool, error) {
				left++
				return false, driver.ErrGone
			},
		})
		r := request()
		if r.Retry = sentBefore; sentBefore {
			fail = errors.New("the reply was lost")
			_, _ = s.Join(t.Context(), r)
			fail = exchange.NotSent(full)
		}
		for range 2 {
			if _, err := s.Join(t.Context(), r); !errors.Is(err, full) {
				t.Fatalf("Join: %v", err)
			}
			r.Retry = true
		}
		if err := s.Leave(t.Context(), ticketOf(r), true); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Leave: %v", err)
		}
		if asked := left > 0; asked != sentBefore {
			t.Errorf("a Join may have been sent: %v; Leave asks the backend: %v", sentBefore, asked)
		}
		if _, err := s.Join(t.Context(), r); !errors.Is(err, driver.ErrGone) {
			t.Errorf("a Join after the Leave: %v", err)
		}
	}
}

// like is a store that has more methods than others.
type like struct {
	*exchangetest.Store
	raised uint64
	file   *os.File
}

func (l *like) Traits() exchange.Traits { return exchange.Traits{Bounded: true} }

func (l *like) RaiseAll(_ context.Context, floor uint64) error {
	l.raised = floor
	return nil
}

func (l *like) Liveness(exchange.Session) []*os.File { return []*os.File{l.file} }

func (l *like) Join(ctx context.Context, _ exchange.Join) (exchange.Status, error) {
	<-ctx.Done()
	return exchange.Status{}, fmt.Errorf("the file is locked by process 7: %w", ctx.Err())
}

// Promise: a store that raises all tokens does so, whatever its clock says, and a session lives as
// long as the files that its store names.
func TestWhatOnlySomeStoresHave(t *testing.T) {
	l := &like{Store: exchangetest.NewWorld().Store(), file: os.Stdin}
	d := exchange.New(l, exchange.NewMailbox())
	t.Cleanup(func() { _ = d.Close() })
	s, err := d.Open(t.Context(), driver.SessionOptions{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if files := s.Liveness; len(files) != 1 || files[0] != l.file {
		t.Errorf("the session lives as long as %v", files)
	}
	const ahead = driver.MaxToken - 2
	if err := d.Raise(t.Context(), "", ahead); err != nil || l.raised != ahead {
		t.Errorf("raised to %d: %v", l.raised, err)
	}

	// What a bounded store says of a wait that its context has ended is kept.
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Join(ctx, request()); !errors.Is(err, context.DeadlineExceeded) || err.Error() == context.DeadlineExceeded.Error() {
		t.Errorf("Join: %v", err)
	}
}
