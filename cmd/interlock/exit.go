package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
)

// Exit codes. A job's own code passes through, and nothing else exits with less than 64.
// All but exitLost and exitDeadlock are those of sysexits.h.
const (
	exitUsage       = 64
	exitAbsent      = 66 // nobody holds the lock, no latch is set
	exitUnreachable = 69
	exitInternal    = 70
	exitSystem      = 71 // no process, pipe or memory is to be had
	exitIO          = 74
	exitBusy        = 75
	exitConfig      = 78
	exitLost        = 79
	exitDeadlock    = 80  // doctor has found one
	exitSignal      = 128 // plus the number of the signal
)

// exitError ends the program with a code. A nil err prints nothing.
type exitError struct {
	code int
	err  error
	job  guard.Result // of a job that ended by itself
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

func failed(code int, err error) error { return &exitError{code: code, err: err} }

func usage(format string, args ...any) error {
	return failed(exitUsage, fmt.Errorf(format, args...))
}

// signalled is the cause of a context that a signal has ended.
type signalled struct{ s syscall.Signal }

func (s signalled) Error() string { return s.s.String() }

// exitCode says what went wrong and returns the code for it.
func exitCode(root *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	var (
		exit    *exitError
		sig     signalled
		library *interlock.Error
		file    *fs.PathError
	)
	code := exitInternal
	switch {
	case errors.As(err, &exit):
		exit.job.Raise()
		if code = exit.code; exit.err == nil {
			return code
		}
	case errors.As(err, &sig):
		return exitSignal + int(sig.s)
	case isSilence(err):
		code = exitUnreachable
	case errors.Is(err, interlock.ErrBusy), errors.Is(err, interlock.ErrConflict):
		code = exitBusy
	case errors.Is(err, interlock.ErrLost):
		code = exitLost
	case errors.Is(err, interlock.ErrInvalid), errors.Is(err, interlock.ErrMismatch), errors.Is(err, interlock.ErrDeadlock), errors.Is(err, errors.ErrUnsupported):
		code = exitUsage
	case errors.As(err, &library):
		code = exitUnreachable
	case errors.As(err, &file):
		code = exitIO
	}
	if asJSON, _ := root.PersistentFlags().GetBool("json"); asJSON {
		_ = writeJSON(root.ErrOrStderr(), errorJSON{trim(err), code})
	} else {
		fmt.Fprintln(root.ErrOrStderr(), "interlock:", trim(err))
	}
	return code
}

// errorJSON is how programs see an error, on standard error.
type errorJSON struct {
	Error  string `json:"error"`
	Status int    `json:"status"` // of the exit
}
