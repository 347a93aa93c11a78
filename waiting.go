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
// lasted for a while, a record tells it to other clients, until the wait is over or a lease that it
// names has ended: whichever of the two comes first ends the record before anybody else can have the
// lock. A wait that holds nothing has no record, and costs nothing.
//
// A record that is asked for is replaced by one with a larger number, which says that the wait goes on:
// see Deadlocks.
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
	if _, ends := ctx.Deadline(); ends || t != nil && t.req.NoWait || !holdsAny(ctx) {
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

func holdsAny(ctx context.Context) bool {
	h, _ := ctx.Value(heldKey{}).(*heldLeases)
	return h != nil || len(outer.Tickets(ctx)) > 0
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

// tell keeps the record until told ends, with the wait or with a lease that holder carries.
func (w *wait) tell(told, holder context.Context) {
	l := w.lock
	r := waitRecord{
		ID: w.id, Queue: l.queue, Units: l.units, Since: w.since, TTL: l.c.TTL(), Breaks: w.fail != nil,
		Note: cut(l.cfg.note, mostRecorded),
	}
	if w.ticket != nil {
		r.Ticket = w.ticket.req.ID
	}
	for h, _ := holder.Value(heldKey{}).(*heldLeases); h != nil; h = h.outer {
		s, ok := h.lease.h.(*single)
		if !ok {
			continue // its parts are carried beside it
		}
		ended := &binding{cancel: func(error) { w.end() }}
		if s.watch(ended) == nil {
			defer s.unbind(ended)
			r.hold(s.t.req.ID)
		}
	}
	for _, id := range outer.Tickets(holder) {
		r.hold(id)
	}
	if len(r.Holds) == 0 {
		return
	}
	l.c.keepRecord(told, l.name, beside(waitPrefix, l.queue), r.note)
}

// waitRecord is the note of a wait's record, in JSON.
type waitRecord struct {
	ID     string        `json:"id"`     // of the wait: one for all of its records
	Number int           `json:"number"` // of the record; that of the next one is larger
	Queue  string        `json:"queue"`  // that is waited for
	Units  int64         `json:"units"`
	Ticket string        `json:"ticket,omitempty"` // which waits there, in its place
	Holds  []string      `json:"holds,omitempty"`  // tickets that do not leave while it waits
	Since  time.Time     `json:"since"`            // by the clock of the waiter
	TTL    time.Duration `json:"ttl"`              // of its client, in nanoseconds
	Breaks bool          `json:"breaks,omitempty"` // it fails rather than stay in a deadlock
	Note   string        `json:"note,omitempty"`
}

func (r *waitRecord) hold(ticket string) {
	if !slices.Contains(r.Holds, ticket) {
		r.Holds = append(r.Holds, ticket)
	}
}

// note tells as much as there is room for: the innermost leases, if there are too many.
func (r waitRecord) note(number int) []byte {
	r.Number = number
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
