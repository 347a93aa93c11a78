package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/oneline"
)

// What a call or a lease ends with, beside the errors of drivers. The package above has them under the same names, and
// says what they mean to its users.
var (
	ErrUnavailable = errors.New("the backend is not available")
	ErrLost        = errors.New("lease lost")
	ErrEvicted     = errors.New("evicted")
	ErrReleased    = errors.New("released")
	ErrDeadlock    = errors.New("already held by this context (see Reentrant, LeaseFrom and Detach)")
	ErrClosed      = errors.New("client closed")
)

// Paused is how much longer the backend grants nothing, and why; nil if it grants.
func (e *Engine) Paused() (left time.Duration, why error) {
	if s := e.sess.Load(); s != nil {
		left = s.s.Paused.Sub(e.d.Now())
	}
	if left > 0 {
		why = fmt.Errorf("nothing is granted for another %v, since the server has lost its locks", left.Round(100*time.Millisecond))
	}
	return left, why
}

// busy is the error of a try that would have to wait.
func (e *Engine) busy() error {
	if _, why := e.Paused(); why != nil {
		return Unavailable(why)
	}
	return driver.ErrBusy
}

// Because says why a wait ended, and the last error of the backend if any. A wait in line, or for a change,
// asks nothing of the backend: whether that is away, its heartbeats have found out.
func (e *Engine) Because(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	var network *net.OpError // that of a timeout is a DeadlineExceeded, too
	if last != nil && !errors.As(last, &network) && (errors.Is(last, cause) || errors.Is(last, ctx.Err())) {
		last = nil
	}
	if last == nil && !errors.Is(ctx.Err(), context.Canceled) {
		last = e.away()
	}
	if last == nil {
		return cause
	}
	return outage(cause, oneline.Of("the backend: "+last.Error()), last)
}

// EndOfWait is because, of a wait in which nothing was asked of the backend.
func (e *Engine) EndOfWait(ctx context.Context) error {
	_, last := e.Paused()
	return e.Because(ctx, last)
}

// Tried is the error of a try that has ended while the wait goes on, for because: if its own time has run out, it is no
// DeadlineExceeded, which would be taken for the end of the wait.
func Tried(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New(err.Error())
	}
	return err
}

// beforeRetry waits before a request is made again that has failed, or says why the call is over.
func (e *Engine) beforeRetry(ctx context.Context, b *backoff.Backoff, failed error) error {
	if ctx.Err() != nil {
		return Unanswered(ctx, failed)
	}
	if b.Sleep(ctx) != nil {
		return e.Because(ctx, Tried(failed))
	}
	return nil
}

// away is why the last heartbeat was not answered, or why there is no session; nil if the backend is there.
func (e *Engine) away() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.sess.Load(); s != nil {
		return s.away
	}
	return e.sessErr
}

// Unanswered is because, of a request that the backend has not answered. The driver's error
// may tell more than that the time ran out, such as who keeps a file locked; nil: it is not known.
func Unanswered(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx) // whoever cancels does not ask for the reason
	}
	const said = "the backend has not answered"
	if err != nil {
		if why, more := strings.CutSuffix(err.Error(), ": "+context.DeadlineExceeded.Error()); more {
			return outage(context.Cause(ctx), said+": "+oneline.Of(why), err)
		}
	}
	return outage(context.Cause(ctx), said)
}

// outage is an ErrUnavailable of a call that ended for this cause. It is no driver.ErrBusy: whether others hold the
// lock is not known.
func outage(cause error, said string, last ...error) error {
	text := cause.Error()
	if cause == driver.ErrBusy { // the time of Wait
		cause, text = context.DeadlineExceeded, "gave up waiting"
	}
	return &unavailable{append(last, cause), text + " (" + said + ")"}
}

// UnansweredTry is the ErrUnavailable of a try that had no answer.
func (e *Engine) UnansweredTry(err error) error {
	return &unavailable{[]error{err}, renewError(err, e.CallLimit()).Error()}
}

// Unavailable is an ErrUnavailable that says no more than err.
func Unavailable(err error) error { return &unavailable{[]error{err}, err.Error()} }

// unavailable is an ErrUnavailable: why the call ended, and what the backend said last, if
// anything.
type unavailable struct {
	errs []error
	text string
}

func (u *unavailable) Error() string        { return u.text }
func (u *unavailable) Unwrap() []error      { return u.errs }
func (u *unavailable) Is(target error) bool { return target == ErrUnavailable }

// Public is err as users of this package may see it: its text is one line. That a session or a
// ticket is over is between the package and its driver: of that only the text remains.
func Public(err error) error {
	if err != nil && (isSessionOver(err) || IsGone(err) || strings.Contains(err.Error(), "\n")) {
		return &internal{err}
	}
	return err
}

// internal wraps what err does, but for the sentinels of drivers.
type internal struct{ err error }

func (e *internal) Error() string      { return oneline.Of(e.err.Error()) }
func (e *internal) As(target any) bool { return errors.As(e.err, target) }
func (e *internal) Is(target error) bool {
	return target != driver.ErrSession && target != driver.ErrGone && errors.Is(e.err, target)
}
