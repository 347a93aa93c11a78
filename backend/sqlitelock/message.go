package sqlitelock

import (
	"encoding/json"
	"slices"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/folder"
	"zombiezen.com/go/sqlite"
)

// message tells a client what has become of its tickets, which it names by their numbers, or that
// a queue or cell has changed that it watches. It is true whenever it arrives: a ticket that was
// granted stays so until it leaves.
type message struct {
	Queue     string  `json:"q,omitempty"`
	Granted   []int64 `json:"g,omitempty"`
	Shift     int64   `json:"s,omitempty"` // token = number + shift
	Inherited bool    `json:"i,omitempty"`
	Wanted    bool    `json:"w,omitempty"` // a waiter is behind those granted
	Want      []int64 `json:"want,omitempty"`
	Revoke    []int64 `json:"revoke,omitempty"`
	Evict     []int64 `json:"evict,omitempty"`
	Gone      []int64 `json:"gone,omitempty"`
	Over      int64   `json:"over,omitempty"` // this session is
	Changed   bool    `json:"c,omitempty"`    // the queue
	Cell      string  `json:"v,omitempty"`    // this cell has changed
	Ends      moment  `json:"e,omitempty"`    // what is in front ends then, which may be sooner than it was
	Look      bool    `json:"look,omitempty"`
}

// outgoing is a message on its way.
type outgoing struct {
	sid  int64 // of the session that it is for; 0: to has its mailbox
	to   address
	body message
}

type address = folder.Address

// notify returns the message to a session about a queue, to be filled in.
func (t *tx) notify(sid int64, queue string) *message {
	for i := range t.out {
		if m := &t.out[i]; m.sid == sid && sid != 0 && m.body.Queue == queue {
			return &m.body
		}
	}
	t.out = append(t.out, outgoing{sid: sid, body: message{Queue: queue}})
	return &t.out[len(t.out)-1].body
}

// notifyWatchers notifies the clients that wait for the next change of a queue or cell.
func (t *tx) notifyWatchers(what, name string, m message) error {
	err := t.each("SELECT post FROM watch WHERE what = ? AND name = ?", func(r *sqlite.Stmt) error {
		to := address{Mailbox: r.ColumnText(0)}
		t.out = append(t.out, outgoing{to: to, body: m})
		return checkMailbox(to.Mailbox)
	}, what, name)
	if err == nil {
		err = t.exec("DELETE FROM watch WHERE what = ? AND name = ?", what, name)
	}
	return err
}

// watch has this client notified of the next change of a queue or cell.
func (t *tx) watch(what, name, mailbox string) error {
	if err := t.attend(true); err != nil {
		return err
	}
	return t.exec("INSERT OR IGNORE INTO watch(what, name, post) VALUES (?,?,?)", what, name, mailbox)
}

// addressed finds out where the messages go.
func (t *tx) addressed() (err error) {
	for i := range t.out {
		if m := &t.out[i]; m.sid != 0 {
			if m.to, err = t.address(m.sid); err != nil {
				return err
			}
		}
	}
	return nil
}

// send delivers the messages of a transaction.
func (s *store) send(out []outgoing) {
	for _, m := range out {
		switch m.to.Mailbox {
		case s.mailbox.Name:
			s.receive(m.body)
			continue
		case "": // the session is over, or its client has no socket
			continue
		}
		data, err := json.Marshal(m.body)
		if err == nil {
			s.mailbox.Deliver(m.to, data)
		}
	}
}

// again is the message for a client whose mailbox was full: it looks at the file.
var again, _ = json.Marshal(message{Look: true})

// open reads a message of another client.
func (s *store) open(data []byte) {
	var m message
	if json.Unmarshal(data, &m) == nil {
		s.receive(m)
	}
}

// receive makes events of a message.
func (s *store) receive(m message) {
	if m.Ends != 0 {
		s.watcher.sooner(m.Ends)
	}
	for _, ev := range s.tickets.events(&m) {
		s.hear(ev)
	}
	if m.Over != 0 {
		s.over(m.Over)
	}
}

// events are what a message says of this client's tickets, and of what it follows and watches.
func (ts *tickets) events(m *message) (all []exchange.Event) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if m.Look {
		all = append(all, exchange.Event{Type: exchange.Wake})
	}
	if m.Changed {
		all = append(all, exchange.Event{Type: exchange.QueueChanged, Queue: m.Queue})
	}
	if m.Cell != "" {
		all = append(all, exchange.Event{Type: exchange.CellChanged, Cell: m.Cell})
	}
	each := func(numbers []int64, ev exchange.Event) {
		for _, n := range numbers {
			if k := ts.byNumber[number{m.Queue, n}]; k != nil {
				ev.ID = k.id
				if ev.Type == exchange.Granted {
					ts.grant(k)
					ev.Status.Token = uint64(n + m.Shift)
				}
				if ev.Type == exchange.Removed {
					expired := !k.waits && !slices.Contains(m.Evict, n)
					ts.leave(k)
					if expired { // the heartbeat says so; the holder was not evicted
						continue
					}
				}
				all = append(all, ev)
			}
		}
	}
	each(m.Granted, exchange.Event{Type: exchange.Granted, Status: exchange.Status{State: exchange.Held, Inherited: m.Inherited, Wanted: m.Wanted}})
	each(m.Want, exchange.Event{Type: exchange.Demanded, Demand: driver.Wanted})
	each(m.Revoke, exchange.Event{Type: exchange.Demanded, Demand: driver.Revoke})
	each(m.Evict, exchange.Event{Type: exchange.Demanded, Demand: driver.Evict})
	each(m.Gone, exchange.Event{Type: exchange.Removed})
	return all
}
