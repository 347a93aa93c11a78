package sqlitelock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
)

// A Join that comes after the Leave of its ticket, which asked for a tombstone, makes no ticket.
func TestATombstoneRefusesALateJoin(t *testing.T) {
	d := start(t, newFile(t))
	s := begin(t, d)
	r, row := mutex("q"), exchangetest.RowOf(s.Opened)
	l := exchange.Leave{Ref: exchange.Ref{Queue: r.Queue, ID: r.ID}, Session: row, Tombstone: time.Minute}
	if err := d.store.alone(t.Context(), &l).Err; !errors.Is(err, driver.ErrGone) {
		t.Fatalf("Leave: %v", err)
	}
	for _, r.Retry = range []bool{false, true} {
		if a := d.store.alone(t.Context(), &exchange.Join{Request: r, Session: row}); !errors.Is(a.Err, driver.ErrGone) {
			t.Errorf("a Join after its Leave: %+v", a)
		}
	}
	s.mustJoin(t, mutex("q"), true)
}

// A ticket that another client has taken out does not come back, even if that is heard
// in the middle of a Join that is repeated.
func TestATicketThatHasLeftIsNotGrantedAgain(t *testing.T) {
	a := start(t, newFile(t))
	b := start(t, a.store.file.path)
	s := begin(t, a)
	for range 20 {
		r := mutex("q")
		held := s.mustJoin(t, r, true)
		n := a.store.tickets.get(r.ID).n
		err := b.store.transact(t.Context(), fast, &tx{s: b.store}, func(x *tx) error { // its message is on the way
			q, err := x.queue("q")
			if err != nil {
				return err
			}
			p, err := x.ticket(q, n)
			if err != nil {
				return err
			}
			return errors.Join(x.remove(q, p, true), x.save(q))
		})
		noError(t, err)

		// The Join is stopped where it has the write lock, at the mutex of the tickets. The
		// message comes to that mutex second, and so gets it between two looks of the Join.
		noError(t, a.store.file.lock.take(t.Context(), coming))
		got, read := make(chan exchange.Answer, 1), make(chan bool)
		r.Retry = true
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		go func() {
			got <- a.store.alone(ctx, &exchange.Join{Request: r, Session: exchangetest.RowOf(s.Opened)})
		}()
		pause := func() { time.Sleep(5 * time.Millisecond) }
		pause() // it waits for the write lock
		a.store.tickets.mu.Lock()
		a.store.file.lock.pass()
		pause() // it waits for the mutex
		go func() {
			a.store.receive(message{Queue: "q", Gone: []int64{n}})
			close(read)
		}()
		pause()
		a.store.tickets.mu.Unlock()
		a.store.tickets.mu.Lock() // from now on the mutex is passed on in the order of those who wait
		pause()
		a.store.tickets.mu.Unlock()
		again := <-got
		<-read
		if !errors.Is(again.Err, driver.ErrGone) {
			t.Fatalf("the ticket with token %d was taken out, and its Join returned %+v, %v", held.Token, again.Status, again.Err)
		}
		if q, err := b.Follow(ctx, "q", ""); err != nil || len(q.Members) != 0 {
			t.Fatalf("the ticket was taken out, and the queue has %+v, %v", q.Members, err)
		}
	}
}
