package interlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/internal/oneline"
)

// NameHolders has ErrBusy say who holds the lock: it is a [*BusyError]. That is an exchange more, of half a second at
// most, when a try or a wait has ended without the lock; if the backend does not answer, it is ErrBusy alone. Of
// several locks ([All]) it is for each of them to say so.
func NameHolders() Option { return func(c *lockConfig) { c.names = true } }

// BusyError is an [ErrBusy] that says who held the lock just after.
type BusyError struct {
	Holders []Member
}

// Error names the first holder, and since when it has been in line.
func (e *BusyError) Error() string {
	text := ErrBusy.Error()
	if len(e.Holders) == 0 {
		return text
	}
	m := e.Holders[0]
	text += ": held by " + oneline.Name(m.Owner)
	if !m.Since.IsZero() {
		text += " since " + m.Since.Local().Format(time.DateTime)
	}
	if m.Note != "" {
		text += " (" + oneline.Name(oneline.Cut(m.Note, mostNote)) + ")"
	}
	if more := len(e.Holders) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// mostNote is how much of a note an error has, in bytes.
const mostNote = 100

// Is reports whether target is ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// withHolders is ErrBusy with the holders, if the lock is to say them, and the backend does. The context of
// the call may have ended.
func (l *Lock) withHolders(ctx context.Context, err error) error {
	if !l.cfg.names || !errors.Is(err, ErrBusy) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
	defer cancel()
	q, unknown := l.c.Admin().Queue(ctx, l.cfg.Name)
	if unknown != nil || len(q.Holders) == 0 {
		return err
	}
	return &BusyError{q.Holders}
}
