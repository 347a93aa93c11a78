package interlock

import (
	"context"
	"log/slog"
	"time"
)

// Event is something that happened to a lock. It is plain data, delivered
// after the fact together with the context of the caller that it happened to,
// so that a tracer can find the parent of its span and date it back by Took.
type Event struct {
	Kind  EventKind
	Name  string
	Token uint64        // of the lease; 0 if there is none
	Time  time.Time     // when it was over
	Took  time.Duration // how long it took; 0 where nothing was waited for
	Err   error
}

// EventKind names what happened.
type EventKind string

const (
	EventAcquired   EventKind = "acquired"    // Took: from the call
	EventHandedOver EventKind = "handed-over" // acquired from a goroutine of this process
	EventGaveUp     EventKind = "gave-up"     // an acquire failed; Err says why
	EventReleased   EventKind = "released"    // Took: how long it was held
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
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if l := c.cfg.log; l != nil && l.Enabled(ctx, e.Kind.level()) {
		attrs := make([]slog.Attr, 0, 4)
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
		l.LogAttrs(ctx, e.Kind.level(), "interlock: "+string(e.Kind), attrs...)
	}
	for _, o := range c.cfg.observers {
		o(ctx, e)
	}
}
