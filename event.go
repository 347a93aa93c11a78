package interlock

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

// Event is something that happened to a lock. It is plain data, delivered
// after the fact together with the context of the caller that it happened to,
// so that a tracer can find the parent of its span and date it back by Took.
//
// All events of one acquire, and of the lease that it comes to, have one ID. EventWaiting comes once at most. After it
// comes EventAcquired, EventHandedOver or EventGaveUp, once. After the first two comes EventReleased or EventLost,
// once, also if Close releases the lease. A lease that was adopted begins without an event. An acquire that finds
// the lock held by its context ([Reentrant]) has no events.
type Event struct {
	Kind      EventKind
	ID        uint64 // of the acquire, in this process; 0 if it happened to the client
	Name      string
	LockKind  string        // mutex, rwmutex, semaphore, election or barrier
	Units     int64         // permits; of a read-write lock 1 is a reader
	Backend   string        // the scheme of the client's URL; empty if it was made by New
	Token     uint64        // of the lease; 0 if there is none
	Time      time.Time     // when it was over
	Took      time.Duration // how long it took; 0 where nothing was waited for
	Exchanges uint64        // with the backend, since the last EventRenewed; only of that kind
	Err       error

	quiet bool // it is logged for debugging only
}

// EventKind names what happened.
type EventKind string

const (
	EventWaiting    EventKind = "waiting"     // Acquire has to wait, in line or for the backend
	EventAcquired   EventKind = "acquired"    // Took: from the call
	EventHandedOver EventKind = "handed-over" // acquired from a goroutine of this process
	EventGaveUp     EventKind = "gave-up"     // an acquire failed; Err says why
	EventReleased   EventKind = "released"    // Took: how long it was held. Err: ErrClosed if Close left it to its fixed end
	EventLost       EventKind = "lost"        // a lease ended without being released
	EventOverrun    EventKind = "overrun"     // work goes on though its lease was lost: see Client.Overruns
	EventInDoubt    EventKind = "in-doubt"    // a renewal failed; the lease may be lost soon
	EventRenewed    EventKind = "renewed"     // all leases of the client; Name is empty
	EventRetry      EventKind = "retry"       // a try of an Acquire failed, and is made again; Err says why
	EventRejoined   EventKind = "rejoined"    // a waiter lost its place and waits again, at the end
	EventSession    EventKind = "session"     // the client has a new session; Name is empty
)

// level grades an event for the log.
func (k EventKind) level() slog.Level {
	switch k {
	case EventLost, EventOverrun, EventInDoubt, EventRejoined:
		return slog.LevelWarn
	case EventSession, EventRetry:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// observed reports whether anybody wants events.
func (c *clientConfig) observed() bool { return c.log != nil || len(c.observers) > 0 }

func (c *Client) emit(ctx context.Context, e Event) {
	if !c.cfg.observed() {
		return
	}
	e.Backend = c.cfg.backend
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	level := e.Kind.level()
	if e.quiet {
		level = slog.LevelDebug
	}
	if l := c.cfg.log; l != nil {
		notify(ctx, slog.Default(), "a logger", e, func() { write(ctx, l, level, e) })
	}
	for _, o := range c.cfg.observers {
		notify(ctx, cmp.Or(c.cfg.log, slog.Default()), "an observer", e, func() { o(ctx, e) })
	}
}

// write logs an event.
func write(ctx context.Context, l *slog.Logger, level slog.Level, e Event) {
	if !l.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 6)
	if e.Name != "" {
		attrs = append(attrs, slog.String("name", e.Name))
	}
	if e.Token != 0 {
		attrs = append(attrs, slog.Uint64("token", e.Token))
	}
	if e.Took != 0 {
		attrs = append(attrs, slog.Duration("took", e.Took))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	if e.ID != 0 {
		attrs = append(attrs, slog.String("kind", e.LockKind), slog.Uint64("id", e.ID))
	}
	l.LogAttrs(ctx, level, "interlock: "+string(e.Kind), attrs...)
}

// notify calls what a program has given. Its panic would otherwise pass through a call that has just acquired the lock.
func notify(ctx context.Context, log *slog.Logger, what string, e Event, call func()) {
	defer func() {
		if r := recover(); r != nil {
			log.ErrorContext(ctx, "interlock: "+what+" has panicked", "event", string(e.Kind), "panic", r, "stack", string(debug.Stack()))
		}
	}()
	call()
}
