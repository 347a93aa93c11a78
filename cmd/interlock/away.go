package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/view"
)

const (
	// patience is how long a command waits for the backend, unless waiting is what it
	// is for.
	patience = 10 * time.Second

	// lastWord is how long a command that is done waits for the backend, to give back
	// what it has there. What it cannot give back runs out within a TTL.
	lastWord = 2 * time.Second

	// pulse is the longest time between two looks at the backend of a command that waits.
	pulse = 3 * time.Second
)

// noAnswer: the backend did not answer for so long.
type noAnswer time.Duration

func (n noAnswer) Error() string { return "no answer in " + time.Duration(n).String() }

// answering bounds ctx by the time that the backend has for an answer.
func answering(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, noAnswer(d))
}

// within returns what f returns, but does not wait longer than that for it.
func within(d time.Duration, f func() error) error {
	ctx, cancel := answering(context.Background(), d)
	defer cancel()
	return until(ctx, f)
}

// until returns what f returns, but does not wait for it when ctx has ended.
func until(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// client is that of one command. While the command waits for others, it looks whether
// the backend still answers.
type client struct {
	*interlock.Client
	name string // that the command is about
	tell func(event, text string)

	closing func() error

	mu     sync.Mutex
	away   error         // why the backend does not answer, nil if it does
	failed error         // why a try failed since it was asked last, nil if none did
	told   bool          // that tries fail
	quiet  time.Duration // for how long it was asked since, and none failed
}

// newClient makes the client of a command. The name is "", or no name of a lock, if the
// command is not about one.
func newClient(c *interlock.Client, name string, tell func(event, text string)) *client {
	if driver.CheckName(name) != nil {
		name = "interlock"
	}
	k := &client{Client: c, name: name, tell: tell}
	k.closing = sync.OnceValue(func() error {
		limit := lastWord
		if k.whyAway() != nil {
			limit /= 4
		}
		return within(limit, c.Close)
	})
	return k
}

// finish closes the client, but does not wait for a backend that is away. It returns the
// same each time.
func (k *client) finish() error { return k.closing() }

// whyAway is why the backend does not answer, nil if it did when it was asked last.
func (k *client) whyAway() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.away
}

// retried notes that a try to acquire failed, and is made again.
func (k *client) retried(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = why
}

// silent notes that the backend did not answer.
func (k *client) silent(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = why
}

// watch asks the backend for an answer every so often, until it is stopped, and tells
// when it goes away and when it is back.
func (k *client) watch(ctx context.Context, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if err := k.ask(ctx, max(every, time.Second)); ctx.Err() == nil {
				k.judge(err, every)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// ask makes one small exchange. A refusal is an answer.
func (k *client) ask(ctx context.Context, limit time.Duration) error {
	ctx, cancel := answering(ctx, limit)
	defer cancel()
	_, err := interlock.NewValue[[]byte](k.Client, k.name).Get(ctx)
	if ctx.Err() == nil {
		return nil
	}
	return err
}

// rowEnds is longer than tries that fail are apart: the pause between two is 1.5 s at most.
const rowEnds = 10 * time.Second

// judge takes note of whether the backend has answered, when it is asked every so often. If it has, and
// refuses what is asked of it all the same, that is told once in each row of tries that fail.
func (k *client) judge(err error, every time.Duration) {
	k.mu.Lock()
	was, refused := k.away, k.failed
	k.away, k.failed = err, nil
	if err != nil || was != nil {
		refused = nil // the tries failed because it was away
	}
	if k.quiet += every; refused != nil {
		k.quiet = 0
	}
	news := refused != nil && !k.told
	k.told = refused != nil || k.told && err == nil && was == nil && k.quiet < rowEnds
	k.mu.Unlock()
	switch {
	case err != nil && was == nil:
		k.tell("away", "the backend does not answer: "+reason(err))
	case err == nil && was != nil:
		k.tell("back", "the backend answers again")
	case news:
		k.tell("retry", "trying again: "+reason(refused))
	}
}

// isSilence reports whether an error says that there was no answer.
func isSilence(err error) bool {
	var silence noAnswer
	return errors.As(err, &silence)
}

// unanswered says of a wait that has ended that the backend is away, or refuses what was
// asked of it, if so. How the client was closed shows whether it is away, too.
func unanswered(err, away, closed error) error {
	if !errors.Is(err, interlock.ErrBusy) && !(errors.Is(err, interlock.ErrUnavailable) && errors.Is(err, context.DeadlineExceeded)) && !isSilence(err) {
		return err
	}
	said := lastSaid(err)
	if said != nil && away == nil && !errors.Is(said, context.DeadlineExceeded) {
		return failed(exitUnreachable, fmt.Errorf("gave up: the backend refuses: %s", trim(said)))
	}
	if away = cmp.Or(away, closed); away != nil {
		if said != nil && isSilence(away) {
			away = said
		}
		return failed(exitUnreachable, fmt.Errorf("gave up: the backend does not answer: %s", reason(away)))
	}
	return err
}

// lastSaid is what the backend said last to an acquire that ended by its own time, or why it did not answer; nil if
// the acquire waited in line.
func lastSaid(err error) error {
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return nil
	}
	for _, said := range several.Unwrap() {
		if !errors.Is(said, interlock.ErrBusy) && !isSilence(said) && said != context.DeadlineExceeded {
			return said
		}
	}
	return nil
}

// reason is an error without what the library was called for. Where the backend has said
// something, it is that alone: that the time is over goes without saying.
func reason(err error) string {
	err = view.Why(err)
	var silence noAnswer
	if several, ok := err.(interface{ Unwrap() []error }); ok && errors.As(err, &silence) {
		err = silence
		for _, said := range several.Unwrap() {
			if !isSilence(said) {
				err = said
			}
		}
	}
	return trim(err)
}
