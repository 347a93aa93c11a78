package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/cmd/interlock/internal/guard"
)

// Promise: the exit status says what went wrong, and less than 64 is always the job's own.
func TestEachErrorHasItsExitStatus(t *testing.T) {
	library := func(err error) error { return &interlock.Error{Op: "acquire", Name: "a", Err: err} }
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{library(interlock.ErrBusy), exitBusy},
		{library(interlock.ErrConflict), exitBusy},
		{library(interlock.ErrLost), exitLost},
		{library(fmt.Errorf("%w: %w", interlock.ErrLost, interlock.ErrEvicted)), exitLost},
		{library(interlock.ErrInvalid), exitUsage},
		{library(interlock.ErrMismatch), exitUsage},
		{library(interlock.ErrDeadlock), exitUsage},
		{library(interlock.ErrClosed), exitUnreachable},
		{library(context.DeadlineExceeded), exitUnreachable},
		{library(errors.New("permission denied")), exitUnreachable},
		{library(noAnswer(patience)), exitUnreachable},
		{noAnswer(patience), exitUnreachable},
		{&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}, exitIO},
		{usage("no"), exitUsage},
		{failed(9, errors.New("busy")), 9},
		{signalled{syscall.SIGTERM}, exitSignal + 15},
		{errors.New("nobody thought of this"), exitInternal},
		{startFailed(errors.New("fork: resource temporarily unavailable")), exitSystem},
		{startFailed(&guard.StartError{Name: "a", Code: 127, Err: fs.ErrNotExist}), 127},
		{startFailed(signalled{syscall.SIGHUP}), exitSignal + 1},
		{absent(library(interlock.ErrLost)), exitAbsent},
		{unanswered(library(interlock.ErrBusy), noAnswer(patience), nil), exitUnreachable},
		{unanswered(library(interlock.ErrBusy), nil, noAnswer(patience)), exitUnreachable},
		{unanswered(library(interlock.ErrBusy), nil, nil), exitBusy},
		{unanswered(library(errors.Join(interlock.ErrBusy, errors.New("read-only"))), nil, nil), exitUnreachable},
		{unanswered(library(interlock.ErrInvalid), noAnswer(patience), nil), exitUsage},
	} {
		root := newRoot()
		root.SetErr(&bytes.Buffer{})
		if got := exitCode(root, c.err); got != c.code {
			t.Errorf("%v: exit status %d, not %d", c.err, got, c.code)
		}
	}
}

// Promise: a wait that ends without an answer says what is known of the reason, and not only that there was none.
func TestAWaitWithoutAnAnswerSaysWhy(t *testing.T) {
	locked := fmt.Errorf("a.db is locked by process 7: %w", context.DeadlineExceeded)
	err := unanswered(errors.Join(locked, context.DeadlineExceeded, interlock.ErrUnavailable), nil, noAnswer(lastWord))
	if got, want := trim(err), "gave up: the backend does not answer: a.db is locked by process 7: context deadline exceeded"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// Promise: an error is one line.
func TestAnErrorIsOneLine(t *testing.T) {
	err := errors.New("interlock: failed to connect:\n\ta refuses\n\tb refuses\n")
	if got, want := trim(err), "failed to connect: a refuses; b refuses"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// Promise: no control character of a name, a URL or a server's answer reaches the terminal.
func TestAnErrorHasNoControlCharacters(t *testing.T) {
	if got, want := trim(usage("value \x1b[2J\r\x07\u009b5n\x9bx does not exist")), "value ·[2J···5n\uFFFDx does not exist"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// Promise: an error has 1,000 characters at most, whatever a server or a user has written into it.
func TestAnErrorIsShort(t *testing.T) {
	long := strings.Repeat("é", 1_000_000)
	for text, want := range map[string]string{
		long[:2*mostText]:     long[:2*mostText],
		long[:2*mostText+2]:   long[:2*mostText-2] + "…",
		long + "\n":           long[:2*mostText-2] + "…",
		"a\xff" + long + "\n": "a\uFFFD" + long[:2*mostText-6] + "…",
	} {
		var b bytes.Buffer
		root := newRoot()
		root.SetErr(&b)
		exitCode(root, errors.New(text))
		if got := b.String(); got != "interlock: "+want+"\n" {
			t.Errorf("of %d bytes %d are written: %.100q", len(text), len(got), got)
		}
	}
}
