package memlock

import (
	"container/heap"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// An alarm ends a ticket with a fixed end, or looks after the tickets of a
// session that were not renewed. One timer per world serves the earliest.
//
// The alarm of a session is set for the oldest ticket when it is set, and not
// touched when that ticket is renewed or leaves: it rings for nothing once per
// TTL, so that joining and leaving need not care for it.
type alarm struct {
	at      driver.Instant
	index   int // in the heap, from 1; 0 when not set
	ticket  *ticket
	session *session
}

type alarms []*alarm

func (a alarms) due(now driver.Instant) bool { return len(a) > 0 && a[0].at <= now }

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at < a[j].at }

func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i+1, j+1
}

func (a *alarms) Push(x any) {
	al := x.(*alarm)
	*a = append(*a, al)
	al.index = len(*a)
}

func (a *alarms) Pop() any {
	last := len(*a) - 1
	al := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	al.index = 0
	return al
}

// set moves an alarm to a time.
func (w *World) set(a *alarm, at driver.Instant) {
	a.at = at
	if a.index == 0 {
		heap.Push(&w.alarms, a)
	} else {
		heap.Fix(&w.alarms, a.index-1)
	}
	w.arm()
}

// unset removes an alarm.
func (w *World) unset(a *alarm) {
	if a.index != 0 {
		heap.Remove(&w.alarms, a.index-1)
		w.arm()
	}
}

// arm starts the timer unless it will fire early enough. A world without alarms
// has no timer.
func (w *World) arm() {
	switch {
	case len(w.alarms) == 0:
		if w.timer != nil {
			w.timer.Stop()
			w.timer, w.armed = nil, never
		}
	case w.alarms[0].at >= w.armed:
	case w.timer == nil:
		w.armed = w.alarms[0].at
		w.timer = time.AfterFunc(time.Duration(w.armed-w.now), w.fire)
	default:
		w.armed = w.alarms[0].at
		w.timer.Reset(time.Duration(w.armed - w.now))
	}
}

func (w *World) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = now()
	if w.now >= w.armed { // else it was set anew while this call was on its way
		w.armed = never
	}
	w.expire()
}

// expire makes the tickets leave whose time has come.
func (w *World) expire() {
	for w.alarms.due(w.now) {
		a := heap.Pop(&w.alarms).(*alarm)
		if a.ticket != nil {
			w.leave(a.ticket, a.ticket.hold == 0) // kept by a holder that was done
			continue
		}
		s := a.session
		for t := s.tickets.first; t != nil && t.end <= w.now; t = s.tickets.first {
			w.leave(t, false)
		}
		if t := s.tickets.first; t != nil {
			w.set(a, t.end)
		}
	}
	w.arm()
}
