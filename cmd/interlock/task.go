package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

// task is a command that has a client.
type task struct {
	*interlock.Client
	cmd  *cobra.Command
	args []string
	name string // the first argument, "" if there is none
}

// action is what cobra calls for a command.
type action = func(cmd *cobra.Command, args []string) error

// with opens a client for the time of f, which does not wait for other clients: its
// context ends when the backend has been waited for long enough.
func (o *options) with(f func(context.Context, task) error) action {
	return func(cmd *cobra.Command, args []string) error { return o.connect(cmd, args, patience, f) }
}

// waits is with for commands that wait for other clients, and so for the backend: it
// tells when that goes away and when it is back.
func (o *options) waits(f func(context.Context, task) error) action {
	return func(cmd *cobra.Command, args []string) error { return o.connect(cmd, args, 0, f) }
}

// streams is waits for commands that write whenever something has changed: it ends when
// nobody can read that any more.
func (o *options) streams(f func(context.Context, task) error) action {
	return o.waits(func(ctx context.Context, t task) error {
		ctx, stop := untilUnread(ctx, t.cmd.OutOrStdout())
		defer stop()
		if err := f(ctx, t); err != nil || ctx.Err() == nil {
			return err
		}
		return context.Cause(ctx)
	})
}

// connect opens a client for the time of f, which gets so much time; 0: until a signal.
func (o *options) connect(cmd *cobra.Command, args []string, limit time.Duration, f func(context.Context, task) error) error {
	signals, stop := untilSignal(cmd.Context())
	defer stop()
	ctx, cancel := signals, func() {}
	if limit > 0 {
		ctx, cancel = answering(signals, limit)
	}
	defer cancel()
	name := cmd.Flags().Arg(0)
	k, b, err := o.attach(ctx, patience, name, func(_, text string) { say(cmd, "interlock: %s", line(text)) })
	if err != nil {
		return err
	}
	if b.surprises(false) {
		if o.json {
			_ = writeJSON(cmd.ErrOrStderr(), map[string]string{"warning": ofOneMachine})
		} else {
			say(cmd, "interlock: %s", ofOneMachine)
		}
	}
	unwatch := k.watch(ctx, time.Second)
	err = f(ctx, task{k.Client, cmd, args, name})
	unwatch()
	closed := k.finish()
	if err == nil {
		return nil
	}
	if signal := ended(signals); signal != nil {
		return signal
	}
	return unanswered(err, k.whyAway(), closed)
}
