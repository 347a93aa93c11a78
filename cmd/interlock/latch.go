package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newLatch(o *options) *cobra.Command {
	return storedGroup(o, "latch", "A count that goes down to zero, and who waits for that",
		latchSet(o), latchCountDown(o), latchWait(o), latchShow(o), latchReset(o))
}

func latchSet(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME COUNT",
		Short: "Start a latch (exit 75 if it is set already)",
		Args:  exactly("NAME", "COUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return usage("COUNT %q is no number", args[1])
			}
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				set, err := c.Latch(args[0]).Set(ctx, n)
				if err == nil && !set {
					return failed(exitBusy, fmt.Errorf("latch %s is set already (interlock latch reset %s frees it)", args[0], args[0]))
				}
				return err
			})
		},
	}
}

func latchCountDown(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "count-down NAME",
		Short: "Take one off, and write what is left",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				l := c.Latch(args[0])
				left, err := l.CountDown(ctx)
				if err != nil {
					if _, set, wrong := l.Count(ctx); wrong == nil && !set {
						return failed(exitAbsent, err)
					}
					return err
				}
				return o.count(cmd, args[0], left, true)
			})
		},
	}
}

func latchWait(o *options) *cobra.Command {
	return waiting{
		what: "latch",
		wait: func(ctx context.Context, c *interlock.Client, name string) error { return c.Latch(name).Wait(ctx) },
		missing: func(ctx context.Context, c *interlock.Client, name string) (string, error) {
			left, set, err := c.Latch(name).Count(ctx)
			switch {
			case err != nil, set && left == 0:
				return "", err
			case set:
				return fmt.Sprintf("%d left", left), nil
			}
			return "not set", nil
		},
	}.command(o, "Wait until a latch is set and its count is zero")
}

func latchShow(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Write the count, or - if the latch is not set",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				left, set, err := c.Latch(args[0]).Count(ctx)
				if err != nil {
					return err
				}
				return o.count(cmd, args[0], left, set)
			})
		},
	}
}

func latchReset(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "reset NAME",
		Short: "Make a latch as if it had never been set",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				return c.Latch(args[0]).Reset(ctx)
			})
		},
	}
}

func (o *options) count(cmd *cobra.Command, name string, left int64, set bool) error {
	out := cmd.OutOrStdout()
	switch {
	case o.json:
		return writeJSON(out, struct {
			Name string `json:"name"`
			Set  bool   `json:"set"`
			Left int64  `json:"left"`
		}{name, set, left})
	case !set:
		fmt.Fprintln(out, "-")
	default:
		fmt.Fprintln(out, left)
	}
	return nil
}
