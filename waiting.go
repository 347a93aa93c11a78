package interlock

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/outer"
)

// A wait without a time limit can be part of a deadlock, if its caller holds something else: what the
// context carries, or the first parts of an [All]. Queues do not say who that is. So once a wait has
// lasted for a while, a record tells it to other clients until the wait is over. A wait that holds nothing has
// no record, and costs nothing.
//
// A record that is asked for is replaced by one with a larger number, which says that the wait goes on, and what it
// still holds: see Deadlocks. So nobody has to be told when one of the leases ends.
type wait struct {
	lock   *Lock
	id     string
	ticket *ticket // its own; nil if it waits in a line of this process
	since  time.Time
	fail   context.CancelCauseFunc // ends the wait; nil unless it breaks deadlocks

	mu     sync.Mutex
	over   bool
	cancel context.CancelFunc // ends the record; nil while there is none
}

// noticed is how long a wait lasts before others are told of it.
const noticed = time.Second

// beginWait is called when a wait begins. The context that it returns ends with ctx, or when the wait is to
// fail, and its cause is what it fails with. over is called when the wait has ended.
func (l *Lock) beginWait(ctx context.Context, t *ticket) (step context.Context, over func()) {
	if t != nil && t.req.NoWait || !keepsOut(ctx) {
		return ctx, nothing
	}
	w := &wait{lock: l, ticket: t, since: time.Now()}
	holder := ctx
	if l.cfg.breaks != nil {
		ctx, w.fail = context.WithCancelCause(ctx)
	}
	timer := time.AfterFunc(noticed, func() { w.notice(holder) })
	return ctx, func() {
		timer.Stop()
		w.end()
		if w.fail != nil {
			w.fail(nil)
		}
	}
}

// keepsOut reports whether a wait with ctx can keep others waiting for ever: its caller holds something, and nothing
// is known to end it. As a deadline does, the end of a lease ends the context that carries it: one with a fixed end
// is a time limit of the wait.
func keepsOut(ctx context.Context) bool {
	if _, ends := ctx.Deadline(); ends {
		return false
	}
	holds := len(outer.Tickets(ctx)) > 0
	for s := range carried(ctx) {
		if s.t.req.Hold > 0 && s.Err() == nil {
			return false
		}
		holds = true
	}
	return holds
}

// notice has a record kept of the wait, whose context is ctx.
func (w *wait) notice(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.id = newID()
	c := w.lock.c
	told, cancel := context.WithCancel(c.ctx)
	w.cancel = cancel
	go c.background(func() { w.tell(told, ctx) })
	if w.fail != nil {
		go c.background(func() { w.breakDeadlocks(told) })
	}
}

// end ends the record. When it returns, no other is made.
func (w *wait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.cancel != nil {
		w.cancel()
	}
}

// tell keeps the record until told ends, with the wait. holder is the context of the wait.
func (w *wait) tell(told, holder context.Context) {
	l := w.lock
	r := waitRecord{
		ID: w.id, Queue: l.queue, Units: l.units, Since: w.since, TTL: l.c.TTL(), Breaks: w.fail != nil,
		Note: cut(l.cfg.note, mostRecorded),
	}
	if w.ticket != nil {
		r.Ticket = w.ticket.req.ID
	}
	if len(stillHeld(holder)) == 0 {
		return
	}
	l.c.keepRecord(told, l.name, beside(waitPrefix, l.queue), func(number int) []byte {
		r.Number, r.Holds = number, stillHeld(holder)
		return r.note()
	})
}

// stillHeld are the tickets of the leases that ctx carries, innermost first, and that have not ended. One
// that has ended is not among them when anybody else can have the lock.
func stillHeld(ctx context.Context) (tickets []string) {
	for s := range carried(ctx) {
		if s.Err() == nil && !slices.Contains(tickets, s.t.req.ID) {
			tickets = append(tickets, s.t.req.ID)
		}
	}
	return append(tickets, outer.Tickets(ctx)...)
}

// waitRecord is the note of a wait's record, in JSON.
type waitRecord struct {
	ID     string        `json:"id"`     // of the wait: one for all of its records
	Number int           `json:"number"` // of the record; that of the next one is larger
	Queue  string        `json:"queue"`  // that is waited for
	Units  int64         `json:"units"`
	Ticket string        `json:"ticket,omitempty"` // which waits there, in its place
	Holds  []string      `json:"holds,omitempty"`  // tickets that do not leave while it waits, unless the next record leaves them out
	Since  time.Time     `json:"since"`            // by the clock of the waiter
	TTL    time.Duration `json:"ttl"`              // of its client, in nanoseconds
	Breaks bool          `json:"breaks,omitempty"` // it fails rather than stay in a deadlock
	Note   string        `json:"note,omitempty"`
}

// note tells as much as there is room for: the innermost leases, if there are too many.
func (r waitRecord) note() []byte {
	b, err := json.Marshal(r)
	for err == nil && len(b) > driver.MaxNote {
		if r.Note == "" {
			r.Holds = r.Holds[:len(r.Holds)/2]
		}
		r.Note = ""
		b, err = json.Marshal(r)
	}
	return b
}
