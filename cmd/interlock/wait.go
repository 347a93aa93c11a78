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
	what    string // a latch, a barrier
	wait    func(context.Context, task) error
	missing func(context.Context, task) (string, error) // what is waited for, such as "2 left"; "" if nothing is
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
		tell := n.telling(verbose, o.json, func(text string) { fmt.Fprintln(n, "interlock:", text) })
		return o.waits(func(ctx context.Context, t task) error {
			if try {
				return w.over(ctx, t, patience, "")
			}
			bounded, cancel := ctx, func() {}
			if bounds {
				bounded, cancel = context.WithTimeoutCause(ctx, d, interlock.ErrBusy)
			}
			defer cancel()
			silence := progress(bounded, tell, again(func(ctx context.Context) (string, error) {
				text, err := w.missing(ctx, t)
				if text != "" {
					text = fmt.Sprintf("waiting for the %s %s: %s", w.what, view.Plain(t.name), text)
				}
				return text, err
			}))
			err := w.wait(bounded, t)
			silence()
			if err == nil || context.Cause(bounded) != interlock.ErrBusy {
				return err
			}
			return w.over(ctx, t, glance, fmt.Sprintf(" after %v", d))
		})(cmd, args)
	}
	return cmd
}

// over ends a wait: what is missing now is missing.
func (w waiting) over(ctx context.Context, t task, limit time.Duration, after string) error {
	ctx, cancel := answering(ctx, limit)
	defer cancel()
	missing, err := w.missing(ctx, t)
	if err != nil || missing == "" {
		return err
	}
	return failed(exitBusy, fmt.Errorf("%s %s: %s%s", w.what, view.Plain(t.name), missing, after))
}
