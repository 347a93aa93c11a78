package driver

import "errors"

// The errors with a meaning of their own; drivers may wrap them.
var (
	ErrBusy     = errors.New("busy")                          // Join with NoWait: it would have to wait
	ErrMismatch = errors.New("other kind or capacity")        // users of one name disagree
	ErrGone     = errors.New("ticket gone")                   // the ticket does not stand any more
	ErrSession  = errors.New("session over")                  // with all its tickets that have no fixed end
	ErrConflict = errors.New("value changed")                 // Swap lost the race
	ErrInvalid  = errors.New("invalid request")               // a wrong name, URL or option
	ErrTooLarge = errors.New("value larger than 65536 bytes") // Swap
)

// Permanent marks an error that will be the same next time, such as a corrupt
// file or a refused password, so that callers do not repeat the call. The
// result wraps err.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

// Invalid marks an error as one of the request itself. The result wraps err and
// ErrInvalid, and reads like err.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return &invalid{err}
}

type invalid struct{ err error }

func (e *invalid) Error() string        { return e.err.Error() }
func (e *invalid) Unwrap() error        { return e.err }
func (e *invalid) Is(target error) bool { return target == ErrInvalid }

// IsPermanent reports whether repeating the call cannot help: err, or an error
// that it wraps, was marked by [Permanent] or is a sentinel of this package or
// errors.ErrUnsupported.
func IsPermanent(err error) bool {
	var p *permanent
	if errors.As(err, &p) || errors.Is(err, errors.ErrUnsupported) {
		return true
	}
	for _, e := range []error{ErrBusy, ErrMismatch, ErrGone, ErrSession, ErrConflict, ErrInvalid, ErrTooLarge} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Passing marks what a server says while it is not ready for a moment: it starts, or its cluster elects a
// leader. Whoever opens a client asks again for some seconds. The result wraps err, and reads like it.
func Passing(err error) error {
	if err == nil {
		return nil
	}
	return &passing{err}
}

// IsPassing reports whether err, or an error that it wraps, was marked by [Passing], and none by [Permanent].
func IsPassing(err error) bool {
	var p *passing
	return errors.As(err, &p) && !IsPermanent(err)
}

type passing struct{ err error }

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

type permanent struct{ err error }

func (p *permanent) Error() string { return p.err.Error() }
func (p *permanent) Unwrap() error { return p.err }
