// Package statelock adds locks to a server of state for Terraform and OpenTofu (their backend "http"):
//
//	http.Handle("/state/", statelock.New(client, "terraform", time.Hour, states))
//
// Here states is the handler that the server has for GET, POST and DELETE. The configuration of the backend names one
// address three times:
//
//	backend "http" {
//	  address        = "https://example.com/state/network"
//	  lock_address   = "https://example.com/state/network"
//	  unlock_address = "https://example.com/state/network"
//	}
package statelock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

// Handler answers LOCK and UNLOCK itself, and gives other requests to the handler of the states. It keeps nothing in
// memory: requests may come to any of several servers, which may be started anew while a state is locked.
type Handler struct {
	client *interlock.Client
	prefix string
	hold   time.Duration
	states http.Handler
	force  func(*http.Request) bool
	bodies chan struct{} // in memory, one for each
}

// mostBodies is how many bodies of writes are in memory at once. Others wait.
const mostBodies = 4

const fiftyYears = 50 * 365 * 24 * time.Hour

// Option is an option of a Handler.
type Option func(*Handler)

// AllowForce lets UNLOCK with an empty body end the lock, if the function returns true. Terraform's force-unlock sends
// such a request. Without this option it is refused: any client could do it by mistake. The lock passes on one TTL of
// the client later, when no server goes on with a write of the holder.
func AllowForce(allow func(*http.Request) bool) Option { return func(h *Handler) { h.force = allow } }

// New returns a Handler. The lock of a state is the mutex with the name prefix/path, of the path of the request, or
// prefix for the path "/". A path that makes no name of a lock has no state that can be written.
//
// Terraform does not renew its lock. So it ends when hold has passed since LOCK, or since the last write of the state:
// take longer than the longest plan, and the longest step of an apply. The next client gets it then, and a write of the
// former one is refused. Hold is a millisecond to fifty years, as of [interlock.ExpiresAfter]; New panics otherwise.
func New(c *interlock.Client, prefix string, hold time.Duration, states http.Handler, opts ...Option) *Handler {
	if hold < time.Millisecond || hold > fiftyYears {
		panic(fmt.Sprintf("statelock: a lock cannot be held for %v: take a millisecond to fifty years", hold))
	}
	h := &Handler{client: c, prefix: prefix, hold: hold, states: states, bodies: make(chan struct{}, mostBodies)}
	for _, o := range opts {
		o(h)
	}
	return h
}

// ServeHTTP answers these itself:
//
//   - LOCK: 200 if the client has the lock now, also if a request with the same ID had it before, since clients repeat
//     what has failed: the time begins anew. 423 with the LockInfo of the holder if another has it.
//   - UNLOCK: 200 if the client does not have the lock now. 409 with the LockInfo of the holder if the ID is another's, or
//     the holder another program, whose lock only its own means and interlock evict end. 403 with an empty body, unless
//     [AllowForce] allows it.
//   - A write of a locked state without the ID of its holder (?ID=): 423 with the LockInfo of the holder. With an ID and
//     without a holder: 409, the lock was lost. All other writes go on to the states, when their body has come whole
//     ([MaxState], or 413), within a minute; four are read at once, and others wait. One with the ID of the holder lets the
//     lock begin its time anew; one without an ID takes the lock until it is done. Its context ends when the lock is lost,
//     and carries the lease ([interlock.LeaseFrom]): where the states keep the largest token, they refuse a write that
//     comes too late.
//
// A LockInfo has 4096 bytes at most (413). 503 says that the backend does not answer, so that the client tries again.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		h.states.ServeHTTP(w, r)
		return
	}
	most := int64(MaxState)
	if r.Method == "LOCK" || r.Method == "UNLOCK" {
		most = driver.MaxNote
	} else { // slow bodies must not keep out others for long
		select {
		case h.bodies <- struct{}{}:
			defer func() { <-h.bodies }()
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute)) // not every server can
		case <-r.Context().Done():
			return
		}
	}
	body, a := whole(w, r, most)
	if a.status != http.StatusOK {
		a.write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.client.TTL()) // a slow body is judged by the lock of now
	defer cancel()
	s := &state{h, strings.TrimSuffix(h.prefix+"/"+strings.Trim(r.URL.Path, "/"), "/")}
	switch r.Method {
	case "LOCK":
		s.lock(ctx, body).write(w)
	case "UNLOCK":
		s.unlock(ctx, body, h.force != nil && h.force(r)).write(w)
	default:
		lease, end, a := s.write(ctx, r.URL.Query().Get("ID"))
		if a.status != http.StatusOK {
			a.write(w)
			return
		}
		defer end()
		bound, free := lease.Bind(r.Context())
		defer free()
		r = r.WithContext(bound)
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.states.ServeHTTP(w, r)
	}
}

// whole reads a body of so many bytes at most. The answer is the refusal of one that is larger, or has not come whole.
func whole(w http.ResponseWriter, r *http.Request, most int64) ([]byte, answer) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, answer{status: http.StatusRequestEntityTooLarge, text: err.Error()}
	case err != nil:
		return nil, answer{status: http.StatusBadRequest, text: "the body has not come whole: " + err.Error()}
	}
	return body, ok
}

// answer is a status, and the LockInfo of the holder or a text.
type answer struct {
	status int
	info   []byte
	text   string
}

var ok = answer{status: http.StatusOK}

func (a answer) write(w http.ResponseWriter) {
	if a.info != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		_, _ = w.Write(a.info)
	} else if a.status != http.StatusOK {
		http.Error(w, a.text, a.status)
	}
}

func failed(err error) answer {
	status := http.StatusInternalServerError
	if errors.Is(err, interlock.ErrInvalid) {
		status = http.StatusBadRequest
	} else if interlock.Retryable(err) || errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusServiceUnavailable
	}
	return answer{status: status, text: err.Error()}
}
