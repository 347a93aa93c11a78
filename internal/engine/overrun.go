package engine

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/oneline"
	"github.com/interlock-go/interlock/internal/record"
)

// Work that goes on though its lease was lost overruns. Work is what a context was bound for, until its function was
// called: so also a function of Do, until it has returned. Release ends it too, for then the holder says that it is
// done. Work gets the margin of the lease for stopping, from the moment at which this process has noticed the loss: a
// tenth of the TTL, and a second at most. What has ended by then does not overrun.
//
// A lease that overruns has a goroutine, which tells of it, and its ticket has another, which
// keeps a record at the backend (see record).

// workBegins notes work. That which begins after the loss overruns too.
func (l *Lease) workBegins() {
	l.works++
	if l.works == 1 && errors.Is(l.why, ErrLost) && !l.given {
		l.overrun(l.why)
	}
}

// workEnds notes that work has ended.
func (l *Lease) workEnds() {
	if l.works--; l.works == 0 {
		l.endOverrun()
	}
}

// endOverrun ends the overrun of the lease, if there is one.
func (l *Lease) endOverrun() {
	if l.late != nil {
		close(l.late)
		l.late = nil
	}
}

// overrun watches the work under a lease that was lost.
func (l *Lease) overrun(why error) {
	if l.late != nil {
		return
	}
	over := make(chan struct{})
	l.late = over
	since := min(l.t.e.d.Now(), l.t.deadline) // a process that was stopped notices the loss late
	l.t.e.Background(func() { l.overruns(over, since, why) })
}

// overruns tells of the overrun of a lease, each TTL, until it ends, or the client is closed.
func (l *Lease) overruns(over <-chan struct{}, since driver.Instant, why error) {
	t, e := l.t, l.t.e
	timer := time.NewTimer(l.grace())
	defer timer.Stop()
	ends := func() bool {
		select {
		case <-over:
			return true
		case <-e.ctx.Done():
			return true
		case <-timer.C:
			return false
		}
	}
	if ends() {
		return
	}
	e.late.Add(1)
	t.record(l.Token(), since)
	for {
		l.by.Overruns(e.d.Now().Sub(since), why)
		timer.Reset(t.sess.ttl)
		if ends() {
			break
		}
	}
	t.endRecord()
	e.late.Add(-1)
	if e.ctx.Err() == nil {
		l.by.Overruns(e.d.Now().Sub(since), nil)
	}
}

// grace is the time that work has for stopping.
func (l *Lease) grace() time.Duration {
	if d := l.t.req.Hold; d > 0 {
		return margin(d)
	}
	return l.t.sess.margin
}

// recording is the record of the ticket's overrun: one for all of its leases.
type recording struct {
	recorded int           // leases that overrun
	unrecord func()        // ends the record
	asked    chan struct{} // of the ticket of a record: has a value once somebody asks for it; else nil
}

// record keeps a record of the ticket's overrun until endRecord is called as often.
func (t *ticket) record(token uint64, since driver.Instant) {
	t.q.mu.Lock()
	defer t.q.unlock()
	if t.recorded++; t.recorded == 1 {
		r := record.Overrun{
			Queue: t.req.Queue, Kind: t.req.Kind, Capacity: t.req.Capacity, Ticket: t.req.ID, Units: t.units, Token: token,
			Note: oneline.Cut(t.req.Note, record.MostOfNote),
		}
		ctx, cancel := context.WithCancel(t.e.ctx)
		t.unrecord = cancel
		t.e.Background(func() {
			t.e.KeepRecord(ctx, r.Queue, record.Beside(record.Overruns, r.Queue), func(int) []byte {
				r.Age = t.e.d.Now().Sub(since)
				return r.Bytes()
			})
		})
	}
}

func (t *ticket) endRecord() {
	t.q.mu.Lock()
	defer t.q.unlock()
	if t.recorded--; t.recorded == 0 {
		t.unrecord()
	}
}

// KeepRecord keeps a ticket in a queue of records until ctx ends. It goes on trying, unless the
// backend refuses for good. A ticket that is asked for is replaced by another one, which is
// there before the first leaves. note is told how many there have been.
func (e *Engine) KeepRecord(ctx context.Context, name, queue string, note func(made int) []byte) {
	r := &Request{Name: name, Queue: queue, Kind: driver.Barrier, Units: 1, Capacity: driver.RWCapacity}
	b := backoff.Backoff{Most: e.TTL()}
	made := 0
	var t, last *ticket
	q := e.queue(queue)
	defer q.leave()
	defer func() { last.abandon(); t.abandon() }()
	for ctx.Err() == nil {
		if t == nil {
			var err error
			if t, err = q.newTicket(ctx, r, nil, nil, true); err != nil {
				return
			}
			t.isRecord()
		}
		t.req.Note = note(made) // that of the Join that takes effect counts
		err := t.reach(ctx, nil)
		switch {
		case err == nil:
			b = backoff.Backoff{Most: e.TTL()}
			made++
			last.abandon()
			last = nil
			if !t.outlasts(ctx) {
				last, t = t, nil // it was lost with its session, or somebody has removed it, or asks for it
			}
			continue
		case isSessionOver(err), IsGone(err), errors.Is(err, errLate):
			t.abandon()
			t = nil
		case driver.IsPermanent(err), errors.Is(err, ErrClosed):
			return
		}
		_ = b.Sleep(ctx)
	}
}

// isRecord has the ticket's record hear of it when somebody asks for the ticket.
func (t *ticket) isRecord() {
	t.q.mu.Lock()
	defer t.q.unlock()
	t.asked = make(chan struct{}, 1)
}

// outlasts waits for the end of ctx. It reports false if the ticket of a record was lost before, or asked for.
func (t *ticket) outlasts(ctx context.Context) bool {
	const looks = 3 // in a TTL
	look := time.NewTicker(t.sess.ttl / looks)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return true
		case <-t.asked:
			return false
		case <-look.C:
		}
		t.q.mu.Lock()
		held := t.state == ticketHeld
		t.q.unlock()
		if !held {
			return false
		}
	}
}
