package statelock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/backoff"
)

// state is one state, which is locked or not.
type state struct {
	*Handler
	name string
}

// holder is the client that has locked a state.
type holder struct {
	lease string // its ID
	id    string // of the LockInfo
	info  []byte // the LockInfo in JSON, which is the note of the lease
}

// idOf returns the ID of a LockInfo in JSON; "" if it is none.
func idOf(info []byte) string {
	var i struct{ ID string }
	if json.Unmarshal(info, &i) != nil {
		return ""
	}
	return i.ID
}

// holder reads which client has locked the state; nil if it is not locked.
func (s *state) holder(ctx context.Context) (*holder, error) {
	q, err := s.client.Admin().Queue(ctx, s.name)
	if err != nil || len(q.Holders) == 0 {
		return nil, err
	}
	m := q.Holders[0]
	h := &holder{lease: m.ID, info: []byte(m.Note)}
	if h.id = idOf(h.info); h.id == "" { // it is a lock of another program
		h.info, err = json.Marshal(map[string]string{"ID": m.ID, "Who": m.Owner, "Info": m.Note})
	}
	return h, err
}

// again waits for a moment, since what was read of the lock was not so any more; false if the time is over.
func again(ctx context.Context) bool { return backoff.Sleep(ctx, 20*time.Millisecond) == nil }

// late is the answer then.
var late = answer{status: http.StatusServiceUnavailable, text: "the lock changes hands; try again"}

// lock takes the lock for the client that has sent this LockInfo.
func (s *state) lock(ctx context.Context, info []byte) answer {
	id := idOf(info)
	if id == "" {
		return answer{status: http.StatusBadRequest, text: "LOCK needs a LockInfo with an ID"}
	}
	for more := true; more; more = again(ctx) {
		_, err := s.client.Mutex(s.name, interlock.ExpiresAfter(s.hold), interlock.Note(string(info))).TryAcquire(ctx)
		if err == nil {
			return ok // the lease stays until UNLOCK, or its end
		}
		if !errors.Is(err, interlock.ErrBusy) {
			return failed(err)
		}
		switch h, err := s.holder(ctx); {
		case err != nil:
			return failed(err)
		case h == nil: // it has just ended
		case h.id == id:
			return ok
		default:
			return answer{status: http.StatusLocked, info: h.info}
		}
	}
	return late
}

// unlock ends the lock of the client that has sent this LockInfo, or without a LockInfo any lock, by force.
func (s *state) unlock(ctx context.Context, info []byte, force bool) answer {
	id := idOf(info)
	if id == "" && len(bytes.TrimSpace(info)) > 0 {
		return answer{status: http.StatusBadRequest, text: "UNLOCK needs a LockInfo with an ID"}
	}
	if id == "" && !force {
		return answer{status: http.StatusForbidden, text: "UNLOCK without the ID of the lock is not allowed here"}
	}
	for more := true; more; more = again(ctx) {
		h, err := s.holder(ctx)
		switch {
		case err != nil:
			return failed(err)
		case h == nil:
			return ok
		case id != "" && h.id != id:
			return answer{status: http.StatusConflict, info: h.info}
		}
		lease, err := s.client.Adopt(ctx, s.name, h.lease)
		if err == nil {
			err = lease.Release()
		}
		if err == nil {
			return ok
		}
		if !errors.Is(err, interlock.ErrLost) { // else it may have ended
			return failed(err)
		}
	}
	return late
}

// write returns the lease under which the client with the ID may write, for another time of the lock; without a lease the state
// is not locked, and the client has not asked for a lock.
func (s *state) write(ctx context.Context, id string) (*interlock.Lease, answer) {
	for more := true; more; more = again(ctx) {
		h, err := s.holder(ctx)
		switch {
		case err != nil:
			return nil, failed(err)
		case h == nil && id == "":
			return nil, ok
		case h == nil:
			return nil, answer{status: http.StatusConflict, text: "the lock was lost: it had ended before this write"}
		case h.id != id:
			return nil, answer{status: http.StatusLocked, info: h.info}
		}
		lease, err := s.client.Adopt(ctx, s.name, h.lease)
		if err == nil {
			err = lease.Extend(ctx, s.hold)
		}
		if err == nil {
			return lease, ok
		}
		if !errors.Is(err, interlock.ErrLost) { // else it may have ended
			return nil, failed(err)
		}
	}
	return nil, late
}
