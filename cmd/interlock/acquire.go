package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newAcquire(o *options) *cobra.Command {
	f := jobFlags{statusFD: -1}
	var kind kindFlags
	var hold time.Duration
	cmd := &cobra.Command{
		Use:        "acquire --hold DURATION [flags] NAME",
		SuggestFor: []string{"lock"},
		Short:      "Take a lock for a fixed time, which no process renews",
		Long: `Acquire waits for the lock NAME, takes it for the time of --hold, and writes one line: the
ID of the grant and its token. The lock ends at that time, whatever happens: no process
renews it, and none is ended when it is over. Extend moves the end, release gives the lock
back before it; both need the ID.

A tenth of the time, one second at most, is not for the work: the work has to be done by
the deadline that --json shows, and others are kept out until a little later. Where the
work can be a command, take run instead: it ends the work when the lock is lost.

If the line cannot be written, the lock is given back, and the exit status is 74. If
acquire itself is killed between the grant and the line, the lock ends at its time.

Exit status:
  64  wrong usage
  69  the backend did not answer, or refused
  74  the line could not be written; the lock was given back
  75  the lock was busy, or the time to wait ran out (-E changes it)
  79  the time of --hold was over before the line was written`,
		Example: `  read -r id token <<<"$(interlock acquire --hold 10m nightly)"
  interlock extend nightly "$id" 10m
  interlock release nightly "$id"`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if hold <= 0 {
				return usage("--hold is missing: for how long, such as 10m? (run keeps a lock as long as a command runs)")
			}
			if err := checkHold("--hold", hold, shortestHold); err != nil {
				return err
			}
			if err := kind.check(cmd); err != nil {
				return err
			}
			j, err := f.of(cmd, o, args)
			if err != nil {
				return err
			}
			j.options = append(f.options(f.note), interlock.ExpiresAfter(hold))
			j.lock = kind.lock
			return j.grant(cmd)
		},
	}
	durationVar(cmd.Flags(), &hold, "hold", "", "take the lock for so long, such as 90 or 10m")
	f.waitFlags.add(cmd, "")
	kind.add(cmd)
	return cmd
}

// A lock is taken for such a time: a shorter one can be over before its grant is known, and the end
// of a longer one does not fit the clocks of all backends.
const (
	shortestHold = time.Second
	longestHold  = 50 * 365 * 24 * time.Hour
)

func checkHold(what string, d, shortest time.Duration) error {
	switch {
	case d < shortest:
		return usage("%s %v: at least %v is possible", what, d, shortest)
	case d > longestHold:
		return usage("%s %v: at most %v is possible, fifty years", what, d, longestHold)
	}
	return nil
}

// grant acquires the lock and writes its ID. The lock stays, unless nobody could learn of it.
func (j *job) grant(cmd *cobra.Command) error {
	outliveReaders() // else the lock would not be given back
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	if err := j.open(ctx); err != nil {
		return err
	}
	defer j.c.finish()
	lease, err := j.acquire(ctx, j.locks(j.left()))
	if err != nil {
		return err
	}
	err = j.written(ctx, cmd, lease)
	if lost := lease.Err(); lost != nil {
		return failed(exitLost, fmt.Errorf("acquire %s: %w", j.name, lost))
	}
	if err == nil {
		return nil
	}
	deadline := lease.Deadline()
	if kept := within(lastWord, lease.Release); kept != nil {
		j.say.warn("%s could not be given back (%s); it frees itself at %s", j.name, reason(kept), deadline.Format(time.DateTime))
	}
	if signal := ended(ctx); signal != nil {
		return signal
	}
	return failed(exitIO, fmt.Errorf("acquire %s: the ID could not be written, so the lock was given back: %w", j.name, err))
}

// grantJSON is how programs see a lock that was acquired for a fixed time.
type grantJSON struct {
	Name     string    `json:"name"`
	ID       string    `json:"id"`
	Token    string    `json:"token"`
	Deadline time.Time `json:"deadline"`
}

// ticketOf is the ID of a lease as show writes it.
func ticketOf(l *interlock.Lease) string {
	id, _, _ := strings.Cut(l.ID(), ".")
	return id
}

func grantOf(l *interlock.Lease) grantJSON {
	return grantJSON{l.Name(), ticketOf(l), strconv.FormatUint(l.Token(), 10), l.Deadline()}
}

// written writes the grant, unless a signal has come, or the lease is over. Where nobody reads,
// such as on a terminal that is held, these end it.
func (j *job) written(ctx context.Context, cmd *cobra.Command, l *interlock.Lease) error {
	ctx, free := l.Bind(ctx)
	defer free()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	g := grantOf(l)
	return until(ctx, func() error { return j.o.print(cmd, g, "%s %s", g.ID, g.Token) })
}
