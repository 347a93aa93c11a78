package ui

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/view"
)

// mostStreams is how many streams of events there are at once.
const mostStreams = 200

// sign is the time between two signs of life of a stream.
const sign = 15 * time.Second

// apiEvents streams states: with name= of one lock, when it has changed, else of the locks that the query chooses, once
// a second at most. With brief= only their times are sent: a page that shows them is asked for again.
func (h *Handler) apiEvents(w http.ResponseWriter, r *http.Request, wants want) {
	name, brief := r.URL.Query().Get("name"), r.URL.Query().Get("brief") != ""
	h.stream(w, r, brief, func(ctx context.Context) iter.Seq2[any, error] {
		if name != "" {
			return h.follow(ctx, name, brief)
		}
		return h.list(ctx, wants)
	})
}

// stream sends what states yields, or with brief its time.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, brief bool, states func(context.Context) iter.Seq2[any, error]) {
	if h.streams.Add(1) > mostStreams {
		h.streams.Add(-1)
		h.refuse(w, r, http.StatusServiceUnavailable, fmt.Sprintf("%d streams are open already.", mostStreams))
		return
	}
	defer h.streams.Add(-1)
	ctx, cancel := context.WithCancel(r.Context())
	s := &stream{w: w, control: http.NewResponseController(w), end: cancel}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy in front passes each event on
	s.comment("the states of locks")
	var alive sync.WaitGroup
	alive.Go(func() {
		for backoff.Sleep(ctx, sign) == nil {
			s.comment("")
		}
	})
	defer alive.Wait()
	defer cancel()
	for state, err := range states(ctx) {
		switch {
		case err != nil:
			s.event("away", map[string]string{"error": away(err).Error()})
		case brief:
			s.event("state", map[string]time.Time{"at": time.Now()})
		default:
			select {
			case h.answering <- struct{}{}:
				s.event("state", state)
				<-h.answering
			case <-ctx.Done():
			}
		}
	}
}

// newsOf yields when a page of the program has changed, five times a second at most, and once a second.
func newsOf(ctx context.Context, news func() <-chan struct{}) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for changed := news(); yield(nil, nil) && backoff.Sleep(ctx, 200*time.Millisecond) == nil; changed = news() {
			select {
			case <-changed:
			case <-time.After(800 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}
}

// list yields the chosen locks, and an error while the backend does not answer.
func (h *Handler) list(ctx context.Context, wants want) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		var last view.Sample
		for going := true; going && ctx.Err() == nil; {
			asking, cancel := context.WithTimeout(ctx, max(patience, 2*h.sampler.Last().Rest()))
			sample, err := h.sampler.Next(asking, last.At)
			cancel()
			if err == nil {
				last = sample
			}
			going = ctx.Err() == nil && yield(locksOf(sample, sample.Err, wants), err)
		}
	}
}

// follow looks at a lock once a second at most. It yields what has changed, and with brief each look, since the time
// that is left of a lease changes with each renewal; an error while the backend does not answer.
func (h *Handler) follow(ctx context.Context, name string, brief bool) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		var last *interlock.Queue
		for n, err := range backoff.Often(ctx, func(ctx context.Context) (view.Name, error) { return h.name(ctx, name) }) {
			if (brief || err != nil || last == nil || !n.Queue.Same(*last)) && !yield(h.lockOf(n), err) {
				return
			}
			if last = nil; err == nil {
				last = &n.Queue
			}
		}
	}
}

// stream is a response that goes on. A reader that takes nothing for a while ends it.
type stream struct {
	control *http.ResponseController
	end     context.CancelFunc

	mu sync.Mutex
	w  http.ResponseWriter
}

func (s *stream) event(kind string, data any) {
	s.write("event: " + kind + "\ndata: " + string(jsonOf(data)) + "\n\n")
}

func (s *stream) comment(text string) { s.write(": " + text + "\n\n") }

func (s *stream) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.control.SetWriteDeadline(time.Now().Add(sign)) // not every server can
	if _, err := fmt.Fprint(s.w, text); err != nil || s.control.Flush() != nil {
		s.end()
	}
}
