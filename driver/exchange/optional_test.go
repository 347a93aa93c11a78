package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: a Join that was certainly not sent is left without an exchange, and cannot come later. If
// an earlier one may have been sent, the backend is asked.
func TestAJoinThatWasNotSentIsLeftWithoutAnExchange(t *testing.T) {
	full := errors.New("the pool is full")
	for _, sentBefore := range []bool{false, true} {
		left, fail := 0, exchange.NotSent(full)
		s := opened(t, Script{
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
		errtest.Is(t, s.Leave(t.Context(), ticketOf(r), true), driver.ErrGone, "Leave")
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

func (l *like) Begin(ctx context.Context, s exchange.Session) (exchange.Begun, error) {
	begun, err := l.Store.Begin(ctx, s)
	begun.Liveness = []*os.File{l.file}
	return begun, err
}

func (l *like) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, l, changes, answer)
}

func (l *like) Join(ctx context.Context, _ exchange.Join) (exchange.Status, error) {
	<-ctx.Done()
	return exchange.Status{}, fmt.Errorf("the file is locked by process 7: %w", ctx.Err())
}

// Promise: a store that raises all tokens does so, whatever its clock says, and a session lives as
// long as the files that its store names.
func TestWhatOnlySomeStoresHave(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		l := &like{Store: exchangetest.NewWorld().Store(), file: os.Stdin}
		s := over(t, l)
		d := exchange.DriverOf(s)
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
	})
}

// granting is a store whose backend grants another TTL than was wished.
type granting struct {
	rowless
	ttl time.Duration
}

func (g granting) Begin(context.Context, exchange.Session) (exchange.Begun, error) {
	return exchange.Begun{TTL: g.ttl}, nil
}

// Promise: the TTL that the backend has granted is that of the session, and of every later call.
func TestTheTTLIsWhatTheBackendHasGranted(t *testing.T) {
	store := newScripted()
	var asked []time.Duration
	store.Script = Script{
		Listen: silent,
		Join: func(_ context.Context, j exchange.Join) (exchange.Status, error) {
			asked = append(asked, j.Session.TTL)
			return held, nil
		},
	}
	s := over(t, granting{rowless{Store: store}, 7 * time.Second})
	joined(t, s)
	if s.TTL != 7*time.Second || !slices.Equal(asked, []time.Duration{7 * time.Second}) {
		t.Errorf("the TTL is %v, and that of a Join %v", s.TTL, asked)
	}
}

// Promise: where a ticket ends with its session, a Join proves no more than the heartbeat before it.
func TestATicketThatEndsWithItsSessionIsProvenByHeartbeats(t *testing.T) {
	s := openedOn(t, rowless{traits: exchange.Traits{WithSession: true}}, Script{Join: says(held), Renew: renews(always(held))})
	opened := driver.Now()
	first := joined(t, s)
	if first.Proof == 0 || first.Proof > opened {
		t.Errorf("a Join after Open is proven from %v, and Open had returned at %v", first.Proof, opened)
	}
	errtest.Must(s.Renew(t.Context(), []driver.Ticket{first}))(t)
	renewed := driver.Now()
	if second := joined(t, s); second.Proof <= opened || second.Proof > renewed {
		t.Errorf("a Join after a heartbeat is proven from %v; the heartbeat was between %v and %v", second.Proof, opened, renewed)
	}
}

// Promise: an event that says that a session may be over has the client ask at once, and believes the
// answer only.
func TestTheEndOfASessionIsAskedFor(t *testing.T) {
	events := make(chan exchange.Event)
	var over atomic.Bool
	asked := make(chan struct{}, 10)
	s := openedOn(t, rowless{traits: exchange.Traits{Listens: true}}, Script{
		Join: says(held), Look: sees(always(held)), Listen: listens(closed(), events),
		Renew: func(context.Context, exchange.Session, []exchange.Ref, int) (exchange.Renewal, error) {
			asked <- struct{}{}
			if over.Load() {
				return exchange.Renewal{}, driver.ErrSession
			}
			return exchange.Renewal{}, nil
		},
	})
	joined(t, s)
	events <- exchange.Event{Type: exchange.SessionOver, ID: "another"}
	events <- exchange.Event{Type: exchange.SessionOver, ID: s.ID}
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is asked")
	}
	if k := joined(t, s); !k.Held {
		t.Fatalf("the session lives on, and its ticket is %+v", k)
	}
	over.Store(true)
	events <- exchange.Event{Type: exchange.SessionOver, ID: s.ID}
	if sig, err := s.Signals(t.Context()); !errors.Is(err, driver.ErrSession) {
		t.Errorf("a session that is over signals %+v, %v", sig, err)
	}
	if len(asked) != 1 {
		t.Errorf("there were %d more questions, not one", len(asked))
	}
}

// Promise: a store whose fixed ends cannot be read exactly says itself which states of a queue differ.
func TestTheVersionOfAQueueIsTheStores(t *testing.T) {
	store := newScripted()
	store.Script = Script{
		Listen: silent,
		Read: func(context.Context, string, exchange.Follower) (exchange.Snapshot, error) {
			return exchange.Snapshot{Queue: driver.Queue{Version: "mine"}}, nil
		},
	}
	d := exchange.New(rowless{Store: store}, exchange.NewMailbox())
	t.Cleanup(func() { _ = d.Close() })
	if q, err := d.Follow(t.Context(), "q", ""); err != nil || q.Version != "mine" {
		t.Errorf("the version is %q, %v", q.Version, err)
	}
}

// Promise: that a store has no Resize is said of a call that may go on; a context that has ended is said
// first, as of every call.
func TestResizeOfAStoreThatHasNone(t *testing.T) {
	d := exchange.New(struct{ exchange.Store }{exchangetest.NewWorld().Store()}, exchange.NewMailbox())
	if err := d.Resize(t.Context(), "q", 2); !errors.Is(err, errors.ErrUnsupported) || !driver.IsPermanent(err) {
		t.Errorf("Resize: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	errtest.Is(t, d.Resize(ended, "q", 2), context.Canceled, "with a context that has ended")
	_ = d.Close()
	if err := d.Resize(t.Context(), "q", 2); errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a driver that is closed: %v", err)
	}
}
