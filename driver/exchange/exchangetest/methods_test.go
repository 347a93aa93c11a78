package exchangetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
)

func renew(t *testing.T, s driver.Session, known ...driver.Ticket) []driver.Renewed {
	t.Helper()
	got, err := s.Renew(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func clientWhoseClockIsBehind(t *testing.T, w *exchangetest.World) string {
	store := w.Store()
	store.Skew = -ttl / 2
	s := begin(t, store)
	k := join(t, s)
	time.Sleep(ttl / 3)
	proof := renew(t, s, k)[0].Proof
	b := open(t, w)
	held := awaits(t, b, join(t, b))
	time.Sleep(ttl * 9 / 10)
	if proven := s.d.Now() < proof.Add(ttl); proven && held.Load() {
		return "another client holds while the one whose clock is behind is proven to"
	}
	return ""
}

// forgetful is a client whose Leaves are lost.
type forgetful struct{ *exchangetest.Store }

func (f forgetful) Driver() *exchange.Driver { return exchangetest.DriverOf(f) }

func (f forgetful) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	exchange.Each(ctx, f, changes, answer)
}

func (forgetful) Leave(context.Context, exchange.Leave) (bool, error) { return false, nil }

// A replica takes over that has not received a Leave: the ticket stands again, and heartbeats of
// its session extend it.
func leaveThatAFailoverHasLost(t *testing.T, w *exchangetest.World) string {
	s := begin(t, forgetful{w.Store()})
	k := join(t, s)
	if err := s.Leave(t.Context(), k, true); err != nil {
		t.Fatal(err)
	}
	w.Crash("the replica")
	b := open(t, w)
	waiter := join(t, b)
	held := awaits(t, b, waiter)
	for range 20 {
		time.Sleep(ttl / 3)
		renew(t, s)
		renew(t, b, waiter)
	}
	if !held.Load() {
		return "a ticket that has left is extended for ever"
	}
	return ""
}

func tokensOverATidy(t *testing.T, w *exchangetest.World) string {
	a := open(t, w)
	k := join(t, a)
	floor := k.Token + uint64(time.Hour/(10*time.Microsecond))
	if err := a.d.Raise(t.Context(), k.Queue, floor); err != nil {
		t.Fatal(err)
	}
	if err := a.Leave(t.Context(), k, true); err != nil {
		t.Fatal(err)
	}
	for range 60 { // some of these tidy
		time.Sleep(ttl / 3)
		renew(t, a)
	}
	if join(t, a).Token <= floor {
		return "the floor of the tokens was removed with the row of the queue"
	}
	return ""
}

func grantWhileTheListenerBegins(t *testing.T, w *exchangetest.World) string {
	a, b := open(t, w), open(t, w)
	k := join(t, a)
	held := awaits(t, b, join(t, b))
	if err := a.Leave(t.Context(), k, true); err != nil {
		t.Fatal(err)
	}
	time.Sleep(ttl / 4) // before a heartbeat is due
	if !held.Load() {
		return "the waiter was not told of its grant, and does not ask"
	}
	return ""
}

func awaitOverALostConnection(t *testing.T, w *exchangetest.World) string {
	a, b := open(t, w), open(t, w)
	join(t, a)
	waiter := join(t, b)
	ended := make(chan error, 1)
	go func() {
		_, err := b.Await(t.Context(), waiter)
		ended <- err
	}()
	synctest.Wait()
	w.Disturb(exchangetest.Network{LoseReply: 1})
	time.Sleep(ttl + time.Second) // its expiry timer fires meanwhile
	w.Disturb(exchangetest.Network{})
	select {
	case err := <-ended:
		return "a connection that was lost for some seconds has ended Await: " + err.Error()
	default:
	}
	return ""
}

func examinationOfWhatDoesNotAnswer(t *testing.T, w *exchangetest.World) string {
	a := open(t, w)
	w.Disturb(exchangetest.Network{LoseReply: 1})
	for _, f := range a.d.Check(t.Context()) {
		if f.Status != driver.OK {
			return ""
		}
	}
	return "nothing is wrong with a backend that does not answer"
}

func connectionsThatAreLeft(t *testing.T, w *exchangetest.World) string {
	for range 10 {
		if err := w.Store().Driver().Close(); err != nil {
			t.Fatal(err)
		}
	}
	if w.Connections() > 0 {
		return "the connections of closed drivers stay"
	}
	return ""
}

// Sessions have no rows here. While a Join waits for its reply, a heartbeat succeeds that does not
// name the ticket; then the Join is given up, and repeated.
func joinThatIsRepeatedAfterAHeartbeat(t *testing.T, w *exchangetest.World) string {
	a, b := openRowless(t, w), openRowless(t, w)
	r := request()
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	defer w.HoldReplies()()
	hear := w.LoseEvents() // else that of the grant says that the ticket stands
	go func() { _, _ = a.Join(ctx, r) }()
	synctest.Wait()
	hear()
	w.HoldReplies()() // only that of the Join is held back from here on
	time.Sleep(ttl / 2)
	renew(t, a)
	giveUp()
	synctest.Wait()
	r.Retry = true
	k, err := a.Join(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	waiter := join(t, b)
	held := awaits(t, b, waiter)
	time.Sleep(ttl * 7 / 10)
	renew(t, b, waiter)
	synctest.Wait()
	if proven := a.d.Now() < k.Proof.Add(ttl); proven && held.Load() {
		return "another client holds while the first, whose Join was repeated, is proven to"
	}
	return ""
}

// Sessions have no rows here. A copy of a Join arrives when its ticket has expired.
func joinThatComesAgain(t *testing.T, w *exchangetest.World) string {
	store := w.Rowless()
	session := exchange.Session{ID: exchange.NewID(), TTL: ttl}
	if _, err := store.Begin(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	j := exchange.Join{Request: request(), Session: session, Number: 1}
	if a := exchange.Alone(t.Context(), store, &j); a.Err != nil || a.State != exchange.Held {
		t.Fatal(a)
	}
	time.Sleep(ttl * 3 / 2)
	if _, err := store.Settle(t.Context(), j.Queue); err != nil {
		t.Fatal(err)
	}
	if a := exchange.Alone(t.Context(), store, &j); a.Err == nil {
		return "a copy of a Join has made a ticket anew that had expired"
	}
	return ""
}
