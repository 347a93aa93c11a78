package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/view"
)

// attention is how long a command waits before it looks what it waits for, and between two
// looks.
const attention = time.Second

// glance is how long the last look may take, when the wait is over without success.
const glance = 500 * time.Millisecond

// progress tells what a command waits for, as often as that changes, until it is stopped; in
// the end "". The wait does not depend on it: whoever may not look waits all the same, and the
// stop does not wait for a look under way, or for long for a terminal.
func progress(ctx context.Context, tell func(text string), looks looks) (stop func()) {
	if tell == nil { // without a reader
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex
	over := false
	told := ""
	go func() {
		if backoff.Sleep(ctx, attention) != nil {
			return
		}
		for text, err := range looks(ctx) {
			mu.Lock()
			if err == nil && !over && text != told {
				told = text
				tell(text)
			}
			mu.Unlock()
			if err != nil || backoff.Sleep(ctx, attention) != nil {
				return
			}
		}
	}()
	return func() {
		cancel()
		_ = within(attention, func() error {
			mu.Lock()
			defer mu.Unlock()
			over = true
			tell("")
			return nil
		})
	}
}

// telling is how a wait is told of: in lines, on the notice, or, without a reader, nil.
func (n *notice) telling(verbose, quiet bool, line func(text string)) func(text string) {
	switch {
	case verbose:
		return func(text string) {
			if text != "" {
				line(text)
			}
		}
	case n.live && !quiet:
		return func(text string) {
			if text != "" {
				text = "interlock: " + text
			}
			n.set(text)
		}
	}
	return nil
}

// looks are what a command sees of what it waits for.
type looks = func(context.Context) iter.Seq2[string, error]

// again looks as often as it is asked.
func again(look func(context.Context) (string, error)) looks {
	return func(ctx context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for yield(look(ctx)) {
			}
		}
	}
}

// showProgress tells what the job waits for, where somebody reads it.
func (j *job) showProgress(ctx context.Context, looks looks) (stop func()) {
	return progress(ctx, j.notice.telling(j.flags.verbose, j.flags.quiet || j.o.json, func(text string) {
		j.say.tell("line", "", "%s", text)
	}), looks)
}

// holders says who holds the lock, and how many wait before this one.
func (j *job) holders(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name := range j.lookedAt(ctx) {
			for q, err := range j.c.Admin().Follow(ctx, name) {
				if err == nil && len(j.names) > 1 && !j.waitsIn(q) {
					break // for the next of the names
				}
				if !yield(fmt.Sprintf("%s is %s%s", name, whoHolds(q), before(q, j.backend.owner())), err) {
					return
				}
			}
		}
	}
}

// lookedAt yields the name that is waited for: of several each in turn, again and again, in the order in
// which they are acquired.
func (j *job) lookedAt(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			for _, name := range slices.Sorted(slices.Values(j.names)) {
				if !yield(name) {
					return
				}
			}
			if len(j.names) == 1 || backoff.Sleep(ctx, attention) != nil {
				return
			}
		}
	}
}

// waitsIn reports whether this process waits in a queue.
func (j *job) waitsIn(q interlock.Queue) bool {
	self := j.backend.owner()
	return slices.ContainsFunc(q.Waiters, func(m interlock.Member) bool { return m.Owner == self })
}

// holder says, after "busy", who holds the lock, if somebody does and the backend tells soon.
func (j *job) holder(ctx context.Context) string {
	if j.flags.quiet || j.c.whyAway() != nil {
		return ""
	}
	ctx, cancel := answering(ctx, glance)
	defer cancel()
	for _, name := range slices.Sorted(slices.Values(j.names)) {
		switch q, err := j.c.Admin().Queue(ctx, name); {
		case err != nil:
			return ""
		case len(q.Holders) == 0:
		case len(j.names) > 1:
			return ": " + name + " is " + whoHolds(q)
		default:
			return ": " + whoHolds(q)
		}
	}
	return ""
}

// whoHolds says who holds a lock.
func whoHolds(q interlock.Queue) string {
	switch n := len(q.Holders); n {
	case 0:
		return "held by nobody" + pause(q)
	case 1:
		return "held by " + described(q.Holders[0])
	default:
		return fmt.Sprintf("held by %s and %d more", described(q.Holders[0]), n-1)
	}
}

// pause says why nobody is granted a lock.
func pause(q interlock.Queue) string {
	if q.Paused.IsZero() {
		return ""
	}
	return "; nothing is granted before " + q.Paused.Local().Format(time.TimeOnly) + ", since the server has lost its locks"
}

// described is a member with what people know it by, and what is known of it.
func described(m interlock.Member) string {
	var known []string
	if at := m.Since.Local(); !m.Since.IsZero() {
		layout := time.TimeOnly
		if y, d := at.Year(), at.YearDay(); y != time.Now().Year() || d != time.Now().YearDay() {
			layout = time.DateTime
		}
		known = append(known, "in line since "+at.Format(layout))
	}
	if m.Note != "" {
		known = append(known, "note "+view.Plain(m.Note))
	}
	if len(known) == 0 {
		return owner(m)
	}
	return owner(m) + " (" + strings.Join(known, ", ") + ")"
}

// before says how many wait before the one with this owner; "" if several have the same.
func before(q interlock.Queue, owner string) string {
	mine := func(m interlock.Member) bool { return m.Owner == owner }
	place := slices.IndexFunc(q.Waiters, mine)
	switch {
	case place < 0 || slices.ContainsFunc(q.Waiters[place+1:], mine):
		return ""
	case place == 0:
		return "; this one is next"
	}
	return fmt.Sprintf("; %d before this one", place)
}

// owner is how others see this process.
func (b backend) owner() string {
	host, _ := os.Hostname()
	self := fmt.Sprintf("%s:%d", host, os.Getpid())
	if u, err := driver.ParseURL(b.url); err == nil {
		return u.Text("owner", self)
	}
	return self
}
