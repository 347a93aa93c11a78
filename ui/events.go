package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/interlock-go/interlock/internal/view"
)

// mostStreams is how many streams of events there are at once.
const mostStreams = 200

// sign is the time between two signs of life of a stream.
const sign = 15 * time.Second

// apiEvents streams states: with name= of one lock, when it has changed, else of the locks that the query chooses, once a
// second at most. With brief= only their times are sent: a page that shows them is asked for again.
func (h *Handler) apiEvents(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	wants, err := wanted(q, 100)
	if err != nil {
		h.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if h.streams.Add(1) > mostStreams {
		h.streams.Add(-1)
		h.refuse(w, r, http.StatusServiceUnavailable, fmt.Sprintf("%d streams are open already.", mostStreams))
		return
	}
	defer h.streams.Add(-1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := &stream{w: w, control: http.NewResponseController(w), cancel: cancel}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy in front passes each event on
	states, brief := make(chan any), q.Get("brief") != ""
	go func() {
		defer close(states)
		if name := q.Get("name"); name != "" {
			h.follow(ctx, name, brief, states)
		} else {
			h.list(ctx, wants, states)
		}
	}()
	s.comment("the states of locks")
	signs := time.NewTicker(sign)
	defer signs.Stop()
	for {
		select {
		case state, more := <-states:
			if !more {
				return
			}
			if err, failed := state.(error); failed {
				s.event("away", map[string]string{"error": away(err).Error()})
				continue
			}
			if brief {
				state = map[string]time.Time{"at": time.Now()}
			}
			s.event("state", state)
		case <-signs.C:
			s.comment("")
		case <-ctx.Done():
			for range states { // its goroutine ends
			}
			return
		}
	}
}

// list sends the chosen locks, and an error while the backend does not answer.
func (h *Handler) list(ctx context.Context, wants want, to chan<- any) {
	var last time.Time
	for ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, max(patience, 2*h.sampler.Rest()))
		sample, err := h.sampler.Next(asking, last)
		cancel()
		var state any = err
		if err == nil {
			last = sample.At
			state = locksOf(sample, sample.Err, wants)
		}
		if !send(ctx, to, state) {
			return
		}
	}
}

// follow looks at a lock once a second at most. It sends what has changed, and with brief each look, since the time that is
// left of a lease changes with each renewal; an error while the backend does not answer.
func (h *Handler) follow(ctx context.Context, name string, brief bool, to chan<- any) {
	last := ""
	for n, err := range view.Often(ctx, func(ctx context.Context) (view.Name, error) { return h.name(ctx, name) }) {
		var state any = err
		is := ""
		if err == nil {
			state, is = h.lockOf(n), view.State(n.Queue)
		}
		if (brief || is == "" || is != last) && !send(ctx, to, state) {
			return
		}
		last = is
	}
}

func send(ctx context.Context, to chan<- any, state any) bool {
	select {
	case to <- state:
		return true
	case <-ctx.Done():
		return false
	}
}

// stream is a response that goes on. A reader that takes nothing for a while ends it.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	cancel  context.CancelFunc
}

func (s *stream) event(kind string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		text = []byte(`{}`)
	}
	text = view.JSONText(text)
	s.write("event: " + kind + "\ndata: " + string(text) + "\n\n")
}

func (s *stream) comment(text string) { s.write(": " + text + "\n\n") }

func (s *stream) write(text string) {
	_ = s.control.SetWriteDeadline(time.Now().Add(sign)) // not every server can
	if _, err := fmt.Fprint(s.w, text); err != nil || s.control.Flush() != nil {
		s.cancel()
	}
}
