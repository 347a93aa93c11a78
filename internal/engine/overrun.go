package engine

import (
	"errors"
	"time"

	"github.com/interlock-go/interlock/driver"
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
