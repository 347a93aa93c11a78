package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/backend/mysqllock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/backoff"
)

// These databases send nothing by themselves. So a client that waits parks one
// connection, in a wait for a lock of the server (GET_LOCK) that another connection holds
// and never gives up, the anchor. There is one for all clients of a server: the one that
// gets the lock keeps it, and parks another connection. Whoever has news for the client writes
// them into a table, commits, and ends that wait by KILL QUERY. The connection is found
// by another lock, which has the channel's name: so a number of a connection that ended
// long ago can never be that of a stranger. Nobody needs a right to end statements of
// his own user.
//
// What is parked is the procedure park, which brings the news before it waits: so a ring
// costs its receiver one statement. A ring that comes before the wait is not lost: see
// sql/inner.sql.

// subscribers are those who listen, over the same connection: all clients of the store.
type subscribers struct {
	mu      sync.Mutex
	all     map[*subscriber]bool
	stop    context.CancelFunc // nil: nobody listens
	hears   bool               // what is rung for from now on is heard
	pauses  backoff.Backoff
	running sync.WaitGroup
	looking atomic.Bool // see missed
	anchor  *sql.Conn   // if it is of this process; the goroutine that hears has it
}

type subscriber struct {
	up      func()
	receive func(exchange.Event)
	lost    chan error // gets one error
}

// patience is for how long a client that ends cleans up.
const patience = time.Second

// Listen receives what is written for the mailbox, until ctx ends.
func (s *store) Listen(ctx context.Context, _ string, up func(), receive func(exchange.Event)) error {
	if most := s.news.Stats().MaxOpenConnections; !s.own && most > 0 && most < 4 {
		return fmt.Errorf("the pool has %d connections, of which two would wait: %w", most, errors.ErrUnsupported)
	}
	e := &subscriber{up: sync.OnceFunc(up), receive: receive, lost: make(chan error, 1)}
	s.subscribe(e)
	select {
	case err := <-e.lost:
		return err
	case <-ctx.Done():
		s.subscribers.remove(e)
		return ctx.Err()
	}
}

func (s *store) subscribe(e *subscriber) {
	h := &s.subscribers
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[*subscriber]bool{}
	}
	h.all[e] = true
	if h.hears {
		e.up()
	}
	if h.stop == nil {
		var ctx context.Context
		ctx, h.stop = context.WithCancel(context.Background())
		h.running.Go(func() { s.hear(ctx) })
	}
}

func (h *subscribers) remove(e *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.all, e); len(h.all) == 0 && h.stop != nil {
		h.stop()
	}
}

// hear listens until the connections are lost, or the last subscriber is removed. Those who listen again soon after
// a failure wait here, so that a server without free connections is asked for one by each process now and
// then, and not by each client.
func (s *store) hear(ctx context.Context) {
	began := time.Now()
	err := s.hearOnce(ctx)
	h := &s.subscribers
	if time.Since(began) > time.Second {
		h.pauses = backoff.Backoff{}
	}
	_ = h.pauses.Sleep(ctx)
	if ctx.Err() != nil {
		h.setAnchor(nil)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := range h.all {
		e.lost <- err
	}
	clear(h.all)
	h.stop()
	h.stop, h.hears = nil, false
}

func (s *store) hearOnce(ctx context.Context) error {
	ctx, cancel := s.whileHere(ctx)
	defer cancel(nil)
	l := &listener{store: s, told: map[int64]bool{}}
	defer l.close()
	for {
		anchors, err := l.park(ctx)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		if anchors {
			s.subscribers.setAnchor(l.parked)
			l.parked = nil
		}
	}
}

// setAnchor replaces the anchor. The former one was lost, or is given up.
func (h *subscribers) setAnchor(anchor *sql.Conn) {
	if h.anchor != nil {
		database.Discard(h.anchor)
	}
	h.anchor = anchor
}

// nowHears is called when the first statement is parked.
func (h *subscribers) nowHears() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hears = true
	for e := range h.all {
		e.up()
	}
}

func (h *subscribers) receive(ev exchange.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := range h.all {
		e.receive(ev)
	}
}

// tell passes on grants that are part of an answer: ID:token:flags, with commas between. They are not in the
// table of news, and nothing is rung for them.
func (h *subscribers) tell(grants []byte) error {
	if len(grants) == 0 {
		return nil
	}
	for text := range strings.SplitSeq(string(grants), ",") {
		var ticket []byte
		var token, flags int64
		if n, _ := fmt.Sscanf(text, "%32x:%d:%d", &ticket, &token, &flags); n < 3 {
			return errAnswer
		}
		h.receive(event(int(exchange.Granted), ticket, nil, token, flags))
	}
	return nil
}

// missed has those who wait look, soon and once for several answers that did not come: such an answer may have
// had grants.
func (h *subscribers) missed() {
	if !h.looking.Swap(true) {
		time.AfterFunc(lookAfter, func() {
			h.looking.Store(false)
			h.receive(exchange.Event{Type: exchange.Wake})
		})
	}
}

// lookAfter gives an exchange without an answer time to take effect.
const lookAfter = 100 * time.Millisecond

// parkFor bounds a wait: its end is a sign of life, and a server soon forgets a client that has vanished. It
// follows the shortest TTL, and is less than a connection may be without a word.
func (s *store) parkFor() time.Duration {
	return min(max(time.Duration(s.ttl.Load())/3, leastPark), mostPark)
}

const (
	leastPark  = 200 * time.Millisecond
	mostPark   = 5 * time.Second
	parkAnswer = time.Second // beside parkFor, for what the server takes, which may count in whole seconds
)

var errMoved = errors.New("mysql: locks are taken on another server now")

// whileHere ends the context when the exchanges of this client have gone to another server: the
// one that it listens to may be one that was replaced and goes on, read-only.
func (s *store) whileHere(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave = func() { cancel(errMoved) }
	return ctx, cancel
}

// isAt notes the history of a connection that was greeted.
func (s *store) isAt(history string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at != history && s.leave != nil {
		s.leave()
	}
	s.at = history
}

type listener struct {
	store  *store
	parked *sql.Conn
	told   map[int64]bool // news that are still in the table
}

// park brings the news and waits, until a ring or until it has lasted long. A connection over which no answer
// comes by then leads nowhere. It reports whether the connection is the anchor now.
func (l *listener) park(ctx context.Context) (anchors bool, err error) {
	if l.parked == nil {
		if l.parked, err = l.store.connectForNews(ctx); err != nil {
			return false, err
		}
	}
	wait := l.store.parkFor()
	ctx, cancel := context.WithTimeout(ctx, 2*wait+parkAnswer)
	defer cancel()
	rows, err := l.parked.QueryContext(ctx, fmt.Sprintf("%s(X'%x',%.3f)", l.store.sql("CALL {p}park"), l.store.mailbox, wait.Seconds())) // with any pool one exchange
	if err == nil {
		anchors, err = l.read(rows)
		if err != nil && !ended(err) {
			cancel() // else Close would wait, too
		}
		_ = rows.Close()
	}
	if err == nil || ended(err) {
		err = nil
		if len(l.told) >= forgetAt {
			err = l.forget(func(text string, args []any) error { _, err := l.parked.ExecContext(ctx, text, args...); return err })
		}
	}
	return anchors, err
}

// ended reports whether the server has ended a statement early, and nothing is wrong.
func ended(err error) bool { return database.Number(err, erInterrupted, erTimedOut, erTimedOutToo) }

// perHear is how many news are read at once.
const perHear = 1000

// read takes what park answers: the news, and when the wait is over nothing more, or that it has the anchor.
func (l *listener) read(rows *sql.Rows) (anchors bool, err error) {
	for again := true; again; again = rows.NextResultSet() {
		for rows.Next() {
			var k, token, flags int64
			var what int
			var ticket, name []byte
			if err := rows.Scan(&k, &what, &ticket, &name, &token, &flags); err != nil {
				return false, err
			}
			if anchors = what == 0; anchors || l.told[k] {
				continue
			}
			l.told[k] = true
			l.store.subscribers.receive(event(what, ticket, name, token, flags))
		}
		if err := rows.Err(); err != nil || anchors {
			return anchors, err
		}
		l.store.subscribers.nowHears() // what is rung for from now on ends the wait
	}
	return false, rows.Err()
}

func event(what int, ticket, name []byte, token, flags int64) exchange.Event {
	e := exchange.Event{Type: exchange.EventType(what), ID: hex.EncodeToString(ticket)}
	switch e.Type {
	case exchange.Granted:
		e.Status = exchange.Status{State: exchange.Held, Token: uint64(token), Inherited: flags&1 != 0, Wanted: flags&2 != 0}
	case exchange.FirstWaiter:
		e.Status.Due = micros(token)
	case exchange.Demanded:
		e.Demand = driver.Demand(token)
	case exchange.QueueChanged:
		e.Queue = string(name)
	case exchange.CellChanged:
		e.Cell = string(name)
	}
	return e
}

// forgetAt is how many news may stay in the table after they were told, so that not
// each of them costs a commit of its own.
const forgetAt = 32

// forget removes what was told.
func (l *listener) forget(exec func(text string, args []any) error) error {
	args := make([]any, 0, len(l.told)+1)
	args = append(args, []byte(l.store.mailbox))
	for k := range l.told {
		args = append(args, k)
	}
	err := exec(l.store.sql("DELETE FROM {p}news WHERE channel = ? AND k IN ("+list(len(l.told), "?", ",")+")"), args)
	if err == nil {
		clear(l.told)
	}
	if undone(err) || ended(err) { // the next time
		return nil
	}
	return err
}

// close gives up the connection.
func (l *listener) close() {
	if l.parked != nil {
		database.Discard(l.parked)
	}
	if len(l.told) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = l.forget(func(text string, args []any) error { return l.store.exec(ctx, text, args...) }) // else Tidy does
}
