package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newBarrier(o *options) *cobra.Command {
	c := storedGroup(o, "barrier", "Keep everybody waiting until the barrier is removed, or all members are there",
		barrierDo(o, "set", "Close a barrier", (*interlock.Barrier).Set),
		barrierDo(o, "remove", "Open a barrier: who waits goes on", (*interlock.Barrier).Remove),
		barrierWait(o), barrierShow(o))
	c.AddCommand(newDoubleBarrier(o))
	return c
}

func barrierDo(o *options, verb, short string, do func(*interlock.Barrier, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				return do(c.Barrier(args[0]), ctx)
			})
		},
	}
}

func barrierWait(o *options) *cobra.Command {
	return waiting{
		what: "barrier",
		wait: func(ctx context.Context, c *interlock.Client, name string) error { return c.Barrier(name).Wait(ctx) },
		missing: func(ctx context.Context, c *interlock.Client, name string) (string, error) {
			set, err := c.Barrier(name).IsSet(ctx)
			if set {
				return "still set", err
			}
			return "", err
		},
	}.command(o, "Wait until a barrier is open")
}

func barrierShow(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Write set or open",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				set, err := c.Barrier(args[0]).IsSet(ctx)
				if err != nil {
					return err
				}
				if o.json {
					return writeJSON(cmd.OutOrStdout(), struct {
						Name string `json:"name"`
						Set  bool   `json:"set"`
					}{args[0], set})
				}
				state := "open"
				if set {
					state = "set"
				}
				fmt.Fprintln(cmd.OutOrStdout(), state)
				return nil
			})
		},
	}
}
