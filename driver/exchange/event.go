package exchange

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// Event is what the backend sends to a mailbox.
type Event struct {
	Type   EventType
	ID     string        // of the ticket: Granted, FirstWaiter, Demanded, Removed; of the session: SessionOver, InDoubt
	Number uint64        // the same, if there is no ID
	Status Status        // Granted: Token, Inherited, Wanted, At and Sent; FirstWaiter: Due
	Demand driver.Demand // Demanded
	Queue  string        // QueueChanged
	Cell   string        // CellChanged
	Topic  uint64        // TopicChanged

	// Unverified: the sender need not be one that may change tickets. The event is a reason to
	// ask, and no more.
	Unverified bool

	// Proves, if it is not nil, says whether the sender has shown that it knows the ticket's ID.
	// If not, the event is unverified.
	Proves func(id string) bool `json:"-"`
}

// EventType says what has happened.
type EventType uint8

// The types. A backend that can say no more than that something has happened sends Wake: then
// the client makes a resync.
const (
	Wake         EventType = iota
	Granted                // the ticket is held
	FirstWaiter            // no waiter is in front of the ticket any more: its expiry timer is set
	Demanded               // something is demanded of the ticket's holder
	Removed                // Ask has taken the ticket out
	QueueChanged           // a queue that is followed has changed
	CellChanged            // a cell that is watched has changed
	SessionOver            // a session may be over: the client asks
	TopicChanged           // what a follower with this topic follows or watches has changed
	InDoubt                // the connection of a session is lost, by which its tickets are kept
)

// receive is called by the Store for each event. It waits for nothing.
func (d *Driver) receive(ev Event) {
	if ev.Type == Wake {
		d.background(func(ctx context.Context) { _ = d.resync(ctx, false) })
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch ev.Type {
	case QueueChanged:
		d.topics.QueueChanged(ev.Queue)
	case CellChanged:
		d.topics.CellChanged(ev.Cell)
	case TopicChanged:
		d.topics.Changed(ev.Topic)
	case SessionOver, InDoubt:
		for _, e := range d.entries {
			if e.s.row.ID == ev.ID {
				if ev.Type == InDoubt {
					e.s.signals.Add(driver.Doubt, "", "")
				} else {
					d.soon(e.s.verify)
				}
				break
			}
		}
	}
	e := d.entries[ev.ID]
	if ev.ID == "" {
		e = d.numbers[ev.Number]
	}
	if e == nil {
		return
	}
	if t := ev.Status.Token; ev.Unverified || ev.Proves != nil && !ev.Proves(e.id) || ev.Type == Granted && (t == 0 || t >= driver.MaxToken) {
		d.doubt(e, ev.Type)
		return
	}
	switch ev.Type {
	case Granted:
		if e.hold > 0 && !e.fixed {
			e.fixAt(ev.Status.At)
		}
		e.grant(ev.Status.Token, ev.Status.Inherited)
		if d.traits.WithSession { // else the grant has not put off its end
			e.prove(ev.Status.Sent)
		}
		if ev.Status.Wanted {
			e.signal(driver.Wanted)
		}
	case FirstWaiter:
		if e.state == waiting {
			e.setTimer(max(ev.Status.Due, 1), 0)
		}
	case Demanded:
		e.signal(ev.Demand)
	case Removed:
		e.signal(driver.Evict)
		d.retire(e)
	}
}

// doubt has the backend asked, after an event that proves nothing. Driver.mu is held. It gets no copy of the
// event: receive may run on a goroutine that reads a connection, and with one more copy it needs more than 4
// KiB of stack, which grows, and is copied, at the first grant.
func (d *Driver) doubt(e *entry, event EventType) {
	switch {
	case e.state == unknown:
		d.resyncs++ // its Join is under way, and sets the expiry timer at once when it sees this
	case event == FirstWaiter:
		if e.state == waiting {
			e.setTimer(1, 0)
		}
	default:
		d.verify(e)
	}
}

// verify asks whether the session is over: a heartbeat that keeps nothing says so. The next
// heartbeat asks if it fails.
func (s *session) verify(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.d.listener.lookTimeout())
	defer cancel()
	_, err := call(ctx, s.d, func(ctx context.Context) (Renewal, error) { return s.d.store.Renew(ctx, s.row, nil, 0) })
	_ = s.noteOver(err)
}

// verify asks for the status of a ticket, and tells its holder. If it fails, Await of a waiter asks,
// and of a holder the next heartbeat.
func (d *Driver) verify(e *entry) {
	d.once("verify "+e.id, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, d.listener.lookTimeout())
		defer cancel()
		err := e.s.look(ctx, d.refOf(e))
		d.mu.Lock()
		defer d.mu.Unlock()
		if err != nil && e.state == waiting {
			e.due = d.now()
			e.notify()
		}
		if now := d.entries[e.id]; e.state == gone && (now == nil || now == e) { // else it was joined anew
			e.signal(driver.Evict)
		}
		return err
	})
}
