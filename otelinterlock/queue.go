package otelinterlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/collector"
)

// item is an event, and what it has changed.
type item struct {
	ctx  context.Context
	span trace.Span // of what has ended; nil if nothing has
	interlock.Event
	collector.Change
}

// queue has items done in their order by a goroutine that is there while there are any.
type queue struct {
	do func(item)

	mu      sync.Mutex
	items   []item
	dropped int
	told    time.Time     // when the handler was told of dropped ones last
	idle    chan struct{} // closed when the goroutine ends; nil if there is none
	stopped bool
}

const longest = 1024

func (q *queue) add(it item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.stopped:
		return
	case len(q.items) == longest:
		q.dropped++
		return
	}
	q.items = append(q.items, it)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run()
	}
}

func (q *queue) run() {
	for {
		q.mu.Lock()
		items, dropped := q.items, 0
		q.items = nil
		if q.dropped > 0 && time.Since(q.told) >= time.Minute {
			dropped, q.dropped, q.told = q.dropped, 0, time.Now()
		}
		if len(items) == 0 && dropped == 0 {
			close(q.idle)
			q.idle = nil
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		if dropped > 0 {
			guarded(func() {
				otel.Handle(fmt.Errorf("otelinterlock: %d spans were dropped, since OpenTelemetry is slow", dropped))
			})
		}
		for _, it := range items {
			guarded(func() { q.do(it) })
		}
	}
}

// stop takes no more items, and waits until there are none.
func (q *queue) stop(ctx context.Context) error {
	q.mu.Lock()
	q.stopped = true
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("otelinterlock: OpenTelemetry is slow: %w", context.Cause(ctx))
	}
}

// panicked is when the handler was told of a panic last, in seconds.
var panicked atomic.Int64

// guarded calls f, and has its panic handled as an error, once a minute at most.
func guarded(f func()) {
	defer func() {
		if r := recover(); r != nil {
			now, last := time.Now().Unix(), panicked.Load()
			if now-last < 60 || !panicked.CompareAndSwap(last, now) {
				return
			}
			defer func() { _ = recover() }() // of the handler
			otel.Handle(fmt.Errorf("otelinterlock: panic: %v", r))
		}
	}()
	f()
}
