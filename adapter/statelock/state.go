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
	id    string // of the LockInfo; "": it is another program
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

// decide has act answer for the holder as it is now, and again if that has changed meanwhile: an error that wraps
// ErrLost or ErrBusy.
func (s *state) decide(ctx context.Context, act func(*holder) (answer, error)) answer {
	for {
		h, err := s.holder(ctx)
		if err != nil {
			return failed(err)
		}
		a, err := act(h)
		if err == nil {
			return a
		}
		changed := errors.Is(err, interlock.ErrLost) || errors.Is(err, interlock.ErrBusy)
		if !changed || backoff.Sleep(ctx, 20*time.Millisecond) != nil {
			return failed(err)
		}
	}
}

// lock takes the lock for the client that has sent this LockInfo.
func (s *state) lock(ctx context.Context, info []byte) answer {
	id := idOf(info)
	if id == "" {
		return answer{status: http.StatusBadRequest, text: "LOCK needs a LockInfo with an ID"}
	}
	return s.decide(ctx, func(h *holder) (answer, error) {
		switch {
		case h == nil: // the lease stays until UNLOCK, or its end
			_, err := s.client.Mutex(s.name, interlock.ExpiresAfter(s.hold), interlock.Note(string(info))).TryAcquire(ctx)
			return ok, err
		case h.id == id:
			_, err := s.renew(ctx, h)
			return ok, err
		}
		return answer{status: http.StatusLocked, info: h.info}, nil
	})
}

// renew begins the time of a lock anew.
func (s *state) renew(ctx context.Context, h *holder) (*interlock.Lease, error) {
	lease, err := s.client.Adopt(ctx, s.name, h.lease)
	if err == nil {
		err = lease.Extend(ctx, s.hold)
	}
	return lease, err
}

// unlock ends the lock of the client that has sent this LockInfo, or without a LockInfo the lock of any client, by
// force: that is evicted and ends a TTL later, since a write may be under way at another server, which learns of
// it with its next heartbeat.
func (s *state) unlock(ctx context.Context, info []byte, force bool) answer {
	id := idOf(info)
	switch {
	case id == "" && len(bytes.TrimSpace(info)) > 0:
		return answer{status: http.StatusBadRequest, text: "UNLOCK needs a LockInfo with an ID"}
	case id == "" && !force:
		return answer{status: http.StatusForbidden, text: "UNLOCK without the ID of the lock is not allowed here"}
	}
	return s.decide(ctx, func(h *holder) (answer, error) {
		switch {
		case h == nil:
			return ok, nil
		case h.id == "" || id != "" && h.id != id:
			return answer{status: http.StatusConflict, info: h.info}, nil
		}
		lease, err := s.client.Adopt(ctx, s.name, h.lease)
		switch {
		case err != nil:
		case id == "":
			if err = lease.Extend(ctx, s.client.TTL()); err == nil {
				err = s.client.Admin().Evict(ctx, s.name, h.lease, false)
			}
		default:
			err = lease.Release()
		}
		return ok, err
	})
}

// write returns the lease under which a client may write, until end is called: for another time of the lock of the
// client with the ID, or one of its own for a client that has not asked for a lock.
func (s *state) write(ctx context.Context, id string) (lease *interlock.Lease, end func(), a answer) {
	end = func() {}
	a = s.decide(ctx, func(h *holder) (_ answer, err error) {
		switch {
		case h == nil && id == "":
			if lease, err = s.client.Mutex(s.name, interlock.Note("a write without a lock")).TryAcquire(ctx); err == nil {
				end = func() { _ = lease.Release() } // if it was lost, the context of the write has ended
			}
			return ok, err
		case h == nil:
			return answer{status: http.StatusConflict, text: "the lock was lost: it had ended before this write"}, nil
		case h.id == "" || h.id != id:
			return answer{status: http.StatusLocked, info: h.info}, nil
		}
		lease, err = s.renew(ctx, h)
		return ok, err
	})
	return lease, end, a
}
