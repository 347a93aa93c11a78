package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

const (
	// patience is how long a command waits for the backend, unless waiting is what it
	// is for.
	patience = 10 * time.Second

	// lastWord is how long a command that is done waits for the backend, to give back
	// what it has there. What it cannot give back runs out within a TTL.
	lastWord = 2 * time.Second
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
	if _, several := err.(interface{ Unwrap() []error }); several && errors.As(err, &silence) {
		err = cmp.Or(lastSaid(err), error(silence))
	}
	return trim(err)
}
