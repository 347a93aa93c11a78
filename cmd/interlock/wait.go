package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

// waiting is a command that waits for something, such as a latch.
type waiting struct {
	what string // a latch, a barrier
	wait func(ctx context.Context, c *interlock.Client, name string) error

	// missing says what is waited for, such as "2 left"; "" if nothing is.
	missing func(ctx context.Context, c *interlock.Client, name string) (string, error)
}

// command makes the command, whose flags bound the wait and tell of it.
func (w waiting) command(o *options, short string) *cobra.Command {
	cmd := &cobra.Command{Use: "wait NAME", Short: short}
	var d time.Duration
	var try, verbose bool
	cmd.Flags().BoolVarP(&try, "nonblock", "n", false, "give up at once (exit 75)")
	durationVar(cmd.Flags(), &d, "wait", "w", "give up after this time, such as 90 or 1m30s (exit 75)")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "say what is missing, whenever that changes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		bounds := cmd.Flags().Changed("wait")
		if try && bounds {
			return usage("-n and -w exclude each other")
		}
		n := newNotice(cmd.ErrOrStderr())
		cmd.SetErr(n)
		return o.waits(func(ctx context.Context, t task) error {
			c, name := t.Client, t.name
			if try {
				return w.over(ctx, c, name, patience, "")
			}
			bounded, cancel := context.WithCancel(ctx)
			defer cancel()
			if bounds {
				bounded, cancel = context.WithTimeoutCause(ctx, d, interlock.ErrBusy)
				defer cancel()
			}
			silence := w.showProgress(bounded, c, name, n, verbose, o.json)
			err := w.wait(bounded, c, name)
			silence()
			if err == nil || context.Cause(bounded) != interlock.ErrBusy {
				return err
			}
			return w.over(ctx, c, name, glance, fmt.Sprintf(" after %v", d))
		})(cmd, args)
	}
	return cmd
}

// over ends a wait: what is missing now is missing.
func (w waiting) over(ctx context.Context, c *interlock.Client, name string, limit time.Duration, after string) error {
	ctx, cancel := answering(ctx, limit)
	defer cancel()
	missing, err := w.missing(ctx, c, name)
	if err != nil || missing == "" {
		return err
	}
	return failed(exitBusy, fmt.Errorf("%s %s: %s%s", w.what, view.Plain(name), missing, after))
}

// showProgress tells what is missing, where somebody reads it.
func (w waiting) showProgress(ctx context.Context, c *interlock.Client, name string, n *notice, verbose, quiet bool) (stop func()) {
	tell := n.telling(verbose, quiet, func(text string) { fmt.Fprintln(n, "interlock:", text) })
	return progress(ctx, tell, again(func(ctx context.Context) (string, error) {
		text, err := w.missing(ctx, c, name)
		if text != "" {
			text = fmt.Sprintf("waiting for the %s %s: %s", w.what, view.Plain(name), text)
		}
		return text, err
	}))
}
