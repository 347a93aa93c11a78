package exchangetest_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
	"github.com/interlock-go/interlock/internal/bubble"
)

// What a Store breaks that no rule of drivertest can bring about: most of it takes a network that
// does one thing at one time. Each returns what is wrong.
var scenarios = map[exchangetest.Fault]func(*testing.T, *exchangetest.World) string{
	exchangetest.Atomic:    leaveIsCutInHalf,
	exchangetest.Alone:     joinsAtTheSameTime,
	exchangetest.OneEnd:    joinBeforeTheEndOfTheSession,
	exchangetest.NeverBack: heartbeatThatIsOvertaken,
	exchangetest.NotBefore: leaveThatDoesNotArrive,
	exchangetest.OneClock:  clientWhoseClockIsBehind,
	exchangetest.Tickets:   leaveThatAFailoverHasLost,
	exchangetest.Tidy:      tokensOverATidy,
	exchangetest.Listen:    grantWhileTheListenerBegins,
	exchangetest.Explain:   awaitOverALostConnection,
	exchangetest.Check:     examinationOfWhatDoesNotAnswer,
	exchangetest.Close:     connectionsThatAreLeft,
	exchangetest.Sent:      joinThatIsRepeatedAfterAHeartbeat,
	exchangetest.Expired:   joinThatComesAgain,

	exchangetest.Apart:           joinBesideOneThatIsRefused,
	exchangetest.LostTogether:    leavesWhoseReplyIsLost,
	exchangetest.Copy:            joinThatComesTwice,
	exchangetest.AttachExpired:   attachOfWhatHasExpired,
	exchangetest.RemovedAtExpiry: endThatIsNoEviction,
	exchangetest.ReadFirst:       heartbeatAtTheEndOfItsSession,
	exchangetest.Confirm:         failoverAfterAGrant,
	exchangetest.Liveness:        childThatOutlivesItsHolder,
}

// Promise: a Store that keeps its contract comes through each scenario, and one that breaks the
// sentence does not.
func TestScenarios(t *testing.T) {
	for _, fault := range exchangetest.InScenarios {
		if scenarios[fault] == nil {
			t.Errorf("%s has no scenario", fault)
		}
	}
	for fault, scenario := range scenarios {
		t.Run(string(fault), func(t *testing.T) {
			bubble.Run(t, func(t *testing.T) {
				if wrong := scenario(t, exchangetest.NewWorld()); wrong != "" {
					t.Error(wrong)
				}
			})
			bubble.Run(t, func(t *testing.T) {
				wrong := scenario(t, exchangetest.NewWorld(fault))
				if wrong == "" {
					t.Error("the fault is not noticed")
				}
				t.Log(wrong)
			})
		})
	}
}

// peer is a client with one session.
type peer struct {
	driver.Session
	d *exchange.Driver
}

func open(t *testing.T, w *exchangetest.World) peer { return begin(t, w.Store()) }

func openRowless(t *testing.T, w *exchangetest.World) peer { return begin(t, w.Rowless()) }

func begin(t *testing.T, store interface{ Driver() *exchange.Driver }) peer {
	t.Helper()
	d := store.Driver()
	t.Cleanup(func() { _ = d.Close() })
	s, err := d.Open(t.Context(), driver.SessionOptions{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return peer{s, d}
}

func request() driver.Request {
	return driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.Mutex, Units: 1, Capacity: 1}
}

func join(t *testing.T, s driver.Session) driver.Ticket {
	t.Helper()
	k, err := s.Join(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// awaits tells when a ticket is held.
func awaits(t *testing.T, s driver.Session, k driver.Ticket) *atomic.Bool {
	var held atomic.Bool
	go func() {
		_, err := s.Await(t.Context(), k)
		held.Store(err == nil)
	}()
	synctest.Wait()
	return &held
}

func leaveIsCutInHalf(t *testing.T, w *exchangetest.World) string {
	a, b := open(t, w), open(t, w)
	k := join(t, a)
	held := awaits(t, b, join(t, b))
	defer w.HoldReplies()()
	go func() { _ = a.Leave(t.Context(), k, true) }()
	synctest.Wait()
	_ = a.d.Close() // as if its process had died before the reply
	time.Sleep(ttl / 10)
	if !held.Load() {
		return "the holder has left, and the waiter does not hold"
	}
	return ""
}

func joinsAtTheSameTime(t *testing.T, w *exchangetest.World) string {
	var all sync.WaitGroup
	var held atomic.Int32
	clients := []peer{open(t, w), open(t, w), open(t, w)}
	resume := w.HoldReplies()
	for _, s := range clients {
		all.Go(func() {
			if k, err := s.Join(t.Context(), request()); err == nil && k.Held {
				held.Add(1)
			}
		})
	}
	synctest.Wait()
	resume()
	all.Wait()
	if held.Load() > 1 {
		return "several hold a mutex"
	}
	return ""
}

func joinBeforeTheEndOfTheSession(t *testing.T, w *exchangetest.World) string {
	a, b := open(t, w), open(t, w)
	time.Sleep(ttl * 9 / 10)
	k := join(t, a)
	if _, err := b.Renew(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	held := awaits(t, b, join(t, b))
	time.Sleep(ttl * 9 / 10)
	if proven := a.d.Now() < k.Proof.Add(ttl); proven && held.Load() {
		return "another client holds while the first is proven to"
	}
	return ""
}

func heartbeatThatIsOvertaken(t *testing.T, w *exchangetest.World) string {
	first := w.Store()
	session := exchange.Session{ID: exchange.NewID(), TTL: ttl}
	if _, err := first.Begin(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	resume := w.Hang()
	late := make(chan error)
	go func() {
		_, err := first.Renew(t.Context(), session, nil, 0)
		late <- err
	}()
	time.Sleep(ttl / 2)
	other := w.Store() // over another connection
	if _, err := other.Renew(t.Context(), session, nil, 0); err != nil {
		t.Fatal(err)
	}
	resume()
	if err := <-late; err != nil {
		t.Fatal(err)
	}
	time.Sleep(ttl * 9 / 10)
	if _, err := other.Renew(t.Context(), session, nil, 0); err != nil {
		return "the session was promised more: " + err.Error()
	}
	return ""
}

func leaveThatDoesNotArrive(t *testing.T, w *exchangetest.World) string {
	a, b := open(t, w), open(t, w)
	k := join(t, a)
	held := awaits(t, b, join(t, b))
	resume := w.Hang()
	defer resume()
	go func() { _ = a.Leave(t.Context(), k, true) }()
	synctest.Wait()
	if held.Load() {
		return "the waiter holds beside a holder whose Leave has not arrived"
	}
	return ""
}
