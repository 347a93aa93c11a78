package exchange_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/internal/errtest"
)

// unproven are events that a stranger can send, and grants of tokens that cannot be.
var unproven = map[string]exchange.Event{
	"a grant without a proof":       {Type: exchange.Granted, Status: exchange.Status{State: exchange.Held, Token: 9}, Unverified: true},
	"a grant with a wrong proof":    {Type: exchange.Granted, Status: exchange.Status{State: exchange.Held, Token: 9}, Proves: func(string) bool { return false }},
	"a grant without a token":       {Type: exchange.Granted, Status: exchange.Status{State: exchange.Held}},
	"a grant with too large a one":  {Type: exchange.Granted, Status: exchange.Status{State: exchange.Held, Token: driver.MaxToken}},
	"an eviction without a proof":   {Type: exchange.Demanded, Demand: driver.Evict, Unverified: true},
	"a removal without a proof":     {Type: exchange.Removed, Unverified: true},
	"the first place without proof": {Type: exchange.FirstWaiter, Unverified: true},
}

// listening is a session whose client hears what a test sends: to the ticket with this ID.
func listening(t *testing.T, script Script) (*driver.Opened, func(id string, ev exchange.Event)) {
	t.Helper()
	events := make(chan exchange.Event)
	script.Listen = listens(closed(), events)
	s := opened(t, script)
	t.Cleanup(exchange.DriverOf(s).ExpectEvents())
	synctest.Wait()
	return s, func(id string, ev exchange.Event) {
		ev.ID = id
		events <- ev
		synctest.Wait()
	}
}

// within is a context that ends if a call waits in vain.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Promise: a waiter whose event has the backend asked, which fails, asks again itself: the event of a
// grant does not come twice, and a heartbeat may be far away.
func TestAWaiterWhoseQuestionFailsAsksAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		var fails atomic.Int32
		fails.Store(2)
		s, send := listening(t, Script{
			Join: says(waits),
			Look: func(ctx context.Context, row exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
				if fails.Add(-1) >= 0 {
					<-ctx.Done() // so slow is a backend that all waiters ask at once
					return nil, ctx.Err()
				}
				return sees(always(held))(ctx, row, refs)
			},
		})
		k := errtest.Must(s.Join(t.Context(), request()))(t)
		send(k.ID, exchange.Event{Type: exchange.Granted, Unverified: true})
		if got, err := s.Await(within(t), k); err != nil || !got.Held {
			t.Errorf("the waiter gets %+v, %v", got, err)
		}
	})
}

// Promise: an event that does not prove that its sender may change the ticket changes nothing that the
// client knows of it, and neither does a grant of a token that cannot be. The client asks.
func TestAnEventThatProvesNothingChangesNothing(t *testing.T) {
	for name, ev := range unproven {
		for of, st := range map[string]exchange.Status{"a holder": held, "a waiter": waits} {
			t.Run(name+" of "+of, func(t *testing.T) {
				bubble.Run(t, func(t *testing.T) {
					var looks atomic.Int32
					s, send := listening(t, Script{
						Join:   says(st),
						Look:   sees(func() exchange.Status { looks.Add(1); return st }),
						Settle: func(context.Context, string) (bool, error) { return false, nil },
					})
					r := request()
					k := errtest.Must(s.Join(t.Context(), r))(t)
					ctx, cancel := context.WithCancel(t.Context())
					awaited := make(chan error, 1)
					go func() {
						if k.Held {
							<-ctx.Done()
						}
						_, err := s.Await(ctx, k)
						awaited <- err
					}()
					synctest.Wait()
					send(k.ID, ev)
					time.Sleep(time.Second)
					if asks := looks.Load() > 0; asks == (k.Held && ev.Type == exchange.FirstWaiter) {
						t.Errorf("it asks the backend: %v", asks)
					}
					cancel()
					errtest.Is(t, <-awaited, context.Canceled, "Await has returned")
					r.Retry = true
					if got, err := s.Join(t.Context(), r); err != nil || got != k {
						t.Errorf("%+v is %+v after it, %v", k, got, err)
					}
					send(k.ID, exchange.Event{Type: exchange.Demanded, Demand: driver.Revoke}) // in earnest
					if sig, err := s.Signals(within(t)); err != nil || sig.Demand != driver.Revoke {
						t.Errorf("the first signal is %+v, %v", sig, err)
					}
				})
			})
		}
	}
}

// Promise: a removal that proves nothing, but is true, ends the ticket: its holder is told, and a waiter.
func TestARemovalThatProvesNothingIsAskedAbout(t *testing.T) {
	for of, st := range map[string]exchange.Status{"a holder": held, "a waiter": waits} {
		t.Run(of, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T) {
				s, send := listening(t, Script{Join: says(st), Look: sees(always(exchange.Status{State: exchange.Gone}))})
				k := joined(t, s)
				go func() { synctest.Wait(); send(k.ID, unproven["a removal without a proof"]) }()
				if sig, err := s.Signals(within(t)); err != nil || sig.Demand != driver.Evict || sig.ID != k.ID {
					t.Errorf("the signal is %+v, %v", sig, err)
				}
				if got, err := s.Await(within(t), k); !errors.Is(err, driver.ErrGone) {
					t.Errorf("Await: %+v, %v", got, err)
				}
			})
		})
	}
}

// Promise: the client asks about each event that proves nothing, also after a question that had no answer.
func TestAQuestionWithoutAnAnswerIsAskedAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		looks := 0
		s, send := listening(t, Script{
			Join: says(held),
			Look: func(context.Context, exchange.Session, []exchange.Ref) ([]exchange.Status, error) {
				if looks++; looks == 1 {
					return nil, errors.New("no connection")
				}
				return make([]exchange.Status, 1), nil // it is gone
			},
		})
		k := joined(t, s)
		send(k.ID, unproven["a removal without a proof"])
		send(k.ID, unproven["a removal without a proof"])
		if sig, err := s.Signals(within(t)); err != nil || sig.Demand != driver.Evict {
			t.Errorf("the signal is %+v, %v", sig, err)
		}
	})
}

// Promise: the event of a grant may come before the reply of its Join, which still says that the ticket waits.
// The ticket is held then; if the event proves nothing, the client asks as soon as the reply is there.
func TestAGrantBeforeTheReplyOfItsJoin(t *testing.T) {
	for name, proven := range map[string]bool{"that proves its sender": true, "that proves nothing": false} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T) {
				reply := make(chan struct{})
				s, send := listening(t, Script{
					Join:   func(context.Context, exchange.Join) (exchange.Status, error) { <-reply; return waits, nil },
					Look:   sees(always(held)),
					Settle: func(context.Context, string) (bool, error) { return false, nil },
				})
				r := request()
				go func() {
					synctest.Wait()
					send(r.ID, exchange.Event{Type: exchange.Granted, Status: held, Unverified: !proven})
					close(reply)
				}()
				began := time.Now()
				k, err := s.Join(t.Context(), r)
				if err != nil || k.Held != proven {
					t.Fatalf("Join: %+v, %v", k, err)
				}
				if k, err = s.Await(within(t), k); err != nil || k.Token != held.Token || time.Since(began) > time.Second {
					t.Errorf("Await: %+v, %v, after %v", k, err, time.Since(began))
				}
			})
		})
	}
}

// Promise: a ticket that is removed while its Join looks for it is gone, whatever the Join found, and does
// not come back.
func TestATicketThatIsRemovedWhileItsJoinIsRepeated(t *testing.T) {
	for name, stood := range map[string]bool{"its Join has a reply": true, "its Join has none": false} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T) {
				finds := make(chan struct{})
				first := true
				s, send := listening(t, Script{
					Join: func(context.Context, exchange.Join) (exchange.Status, error) {
						switch {
						case !first:
							<-finds
						case !stood:
							first = false
							return exchange.Status{}, context.DeadlineExceeded
						}
						return held, nil
					},
					Look: sees(func() exchange.Status { <-finds; return held }),
				})
				r := request()
				if _, err := s.Join(t.Context(), r); (err == nil) != stood {
					t.Fatalf("Join: %v", err)
				}
				go func() {
					synctest.Wait()
					send(r.ID, exchange.Event{Type: exchange.Removed})
					close(finds)
				}()
				r.Retry = true
				for range 2 { // the second one, after the removal
					if k, err := s.Join(t.Context(), r); !errors.Is(err, driver.ErrGone) {
						t.Errorf("the Join that is repeated: %+v, %v", k, err)
					}
				}
				if sig, err := s.Signals(within(t)); err != nil || sig.Demand != driver.Evict {
					t.Errorf("the signal is %+v, %v", sig, err)
				}
			})
		})
	}
}

// Promise: a question about an event that proves nothing, which is answered after the ticket was joined anew, tells the
// holder nothing.
func TestALateLookTellsANewHolderNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := errors.New("no replica has it")
		events := make(chan exchange.Event)
		joins := 0
		store := newScripted()
		store.Script = Script{
			Join: func(context.Context, exchange.Join) (exchange.Status, error) {
				if joins++; joins == 1 {
					return waits, nil
				}
				return held, nil
			},
			Listen: listens(closed(), events),
			Look: func(ctx context.Context, _ exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
				time.Sleep(time.Second)
				return []exchange.Status{held}, nil
			},
		}
		s := over(t, rowless{Store: store, traits: exchange.Traits{Bounded: true, Listens: true}, confirm: func(exchange.Ref) (bool, error) {
			if joins == 1 {
				return true, fails
			}
			return false, nil
		}})
		synctest.Wait()
		time.Sleep(5 * time.Second) // the resync of the listener
		r := request()
		k := errtest.Must(s.Join(t.Context(), r))(t)
		events <- exchange.Event{Type: exchange.Granted, ID: k.ID, Status: held, Unverified: true}
		time.Sleep(100 * time.Millisecond)
		events <- exchange.Event{Type: exchange.Granted, ID: k.ID, Status: held}
		if _, err := s.Await(t.Context(), k); !errors.Is(err, fails) {
			t.Fatal(err)
		}
		if k, err := s.Join(t.Context(), r); err != nil || !k.Held {
			t.Fatal(k, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if sig, err := s.Signals(ctx); err == nil {
			t.Errorf("a healthy holder is told %+v", sig)
		}
	})
}

// Promise: a waiter whose grant has to be looked at does not wait longer than LookTimeout for a look that hangs.
func TestALookThatHangsHoldsUpNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan exchange.Event)
		looks := 0
		store := newScripted()
		store.Script = Script{
			Join: says(waits), Listen: listens(closed(), events),
			Settle: func(context.Context, string) (bool, error) { return false, nil },
			Look: func(ctx context.Context, _ exchange.Session, refs []exchange.Ref) ([]exchange.Status, error) {
				if looks++; looks == 1 {
					<-ctx.Done()
					return nil, errors.New("lost")
				}
				return []exchange.Status{held}, nil
			},
		}
		s := over(t, rowless{Store: store, traits: exchange.Traits{Bounded: true, Listens: true}})
		synctest.Wait()
		k := joined(t, s)
		began := time.Now()
		events <- exchange.Event{Type: exchange.Granted, ID: k.ID, Status: held, Unverified: true}
		_, err := s.Await(t.Context(), k)
		if took := time.Since(began); err != nil || took > exchange.LookTimeout+time.Second {
			t.Errorf("%v, after %v", err, took)
		}
	})
}

// Promise: callers are told that the connection of their session is lost, once it has a ticket, and not of another one.
func TestCallersAreToldThatTheConnectionIsInDoubt(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s, send := listening(t, Script{Join: says(held)})
		errtest.Must(s.Join(t.Context(), request()))(t)
		send("another", exchange.Event{Type: exchange.InDoubt})
		send(s.ID, exchange.Event{Type: exchange.InDoubt})
		if g, err := s.Signals(within(t)); err != nil || g.Demand != driver.Doubt || g.ID != "" {
			t.Errorf("the signal is %+v, %v", g, err)
		}
	})
}

// Promise: the event of a grant proves nothing of a ticket with an end of its own: that is where it was without the
// grant.
func TestAGrantDoesNotPutOffTheEndOfATicket(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		s, send := listening(t, Script{Join: says(waits)})
		k := errtest.Must(s.Join(t.Context(), request()))(t)
		time.Sleep(time.Second)
		now := exchange.DriverOf(s).Now()
		send(k.ID, exchange.Event{Type: exchange.Granted, Status: exchange.Status{State: exchange.Held, Token: 9, Sent: now}})
		if got, err := s.Await(within(t), k); err != nil || got.Proof >= now {
			t.Errorf("it is proven from %v, and was joined a second before %v: %v", got.Proof, now, err)
		}
	})
}
