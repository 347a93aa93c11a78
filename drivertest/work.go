package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest/internal/remote"
	"github.com/interlock-go/interlock/drivertest/internal/suite"
)

// A task is what a process does under a lock, to a file that nothing else
// protects.
type task struct {
	Request    driver.Request // but for its ID
	File       string
	Times      int // of work: 0 for ever
	TTL        time.Duration
	Neighbours []string // files that are opened and closed in between, as another part of the program may do
}

// works are the tasks by the names under which other processes are given them.
var works = map[string]remote.Work{"log": func(ctx context.Context, d driver.Driver, args []byte) error {
	var w task
	if err := json.Unmarshal(args, &w); err != nil {
		return err
	}
	return work(ctx, d, w)
}}

// work writes a line for every moment at which it holds the lock by its own
// account: before its last proof plus the TTL. It may be killed or stopped at
// any of them, and ends with its context, or after so many grants.
func work(ctx context.Context, d driver.Driver, w task) error {
	log, err := os.OpenFile(w.File, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	for {
		err := workInSession(ctx, d, w, log)
		over := errors.Is(err, driver.ErrSession) || errors.Is(err, driver.ErrGone)
		if err == nil || ctx.Err() != nil || !over && driver.IsPermanent(err) {
			return err
		}
		if !over { // a connection that was lost while the process was stopped, for example
			time.Sleep(w.TTL / 100)
		}
	}
}

// workInSession works until the session is over, or a ticket is.
func workInSession(ctx context.Context, d driver.Driver, w task, log *os.File) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := d.Open(ctx, driver.SessionOptions{TTL: w.TTL})
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))
	var current atomic.Pointer[driver.Ticket]
	var proof atomic.Int64
	go func() {
		for ctx.Err() == nil {
			var known []driver.Ticket
			if tk := current.Load(); tk != nil {
				known = append(known, *tk)
			}
			answer, err := s.Renew(ctx, known)
			if errors.Is(err, driver.ErrSession) {
				cancel(err)
				return
			}
			for _, r := range answer {
				if tk := current.Load(); tk != nil && r.ID == tk.ID && r.State == driver.Kept {
					proof.Store(int64(r.Proof))
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(s.TTL / 3):
			}
		}
	}()
	for n := 0; w.Times == 0 || n < w.Times; n++ {
		r := w.Request
		r.ID = newID()
		current.Store(&driver.Ticket{ID: r.ID, Queue: r.Queue})
		tk, err := s.Join(ctx, r)
		if err == nil {
			tk, err = s.Await(ctx, tk)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return err
		}
		proof.Store(int64(tk.Proof)) // what a Renew said while it waited is older
		for range 5 {
			at := suite.Stamp()
			if d.Now() >= driver.Instant(proof.Load()).Add(s.TTL) {
				return driver.ErrGone
			}
			if _, err := fmt.Fprintf(log, lineFormat, tk.ID, tk.Token, at); err != nil {
				return err
			}
			time.Sleep(200 * time.Microsecond)
		}
		if err := s.Leave(ctx, tk, true); err != nil {
			return err
		}
		for _, path := range w.Neighbours {
			_, _ = os.ReadFile(path) // not all of them need exist
		}
	}
	return nil
}

// A span is the time in which somebody worked under one grant.
type span struct {
	id          string
	token       uint64
	first, last int64
}

// A line begins and ends with a mark: one that a killed process left half written, or
// that is just being written, is not taken for another, nor are two for one.
const lineFormat, lineEnd = "\n%s %d %d.", "."

// spans reads what the workers wrote, one for each grant, in the order of the
// file. A line that is not whole does not count.
func spans(file string) ([]span, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []span
	index := map[string]int{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasSuffix(line, lineEnd) {
			continue
		}
		var s span
		if n, err := fmt.Sscanf(line, lineFormat[1:], &s.id, &s.token, &s.first); n != 3 || err != nil {
			return nil, fmt.Errorf("line %q: %v", line, err)
		}
		s.last = s.first
		i, ok := index[s.id]
		if !ok {
			index[s.id] = len(all)
			all = append(all, s)
			continue
		}
		all[i].first, all[i].last = min(all[i].first, s.first), max(all[i].last, s.last)
	}
	return all, nil
}
