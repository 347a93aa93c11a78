package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

type barrierJSON struct {
	Name string `json:"name"`
	Set  bool   `json:"set"`
}

func newBarrier(o *options) *cobra.Command {
	c := storedGroup(o, "barrier", "Hold processes back until the barrier is removed, or all members have come",
		barrierDo(o, "set NAME", "Close a barrier", (*interlock.Barrier).Set, true),
		barrierDo(o, "remove NAME", "Open a barrier: who waits goes on", (*interlock.Barrier).Remove, false),
		barrierWait(o),
		&cobra.Command{Use: "get NAME", SuggestFor: []string{"show"}, Short: "Write set or open", RunE: o.with(o.getBarrier)})
	c.AddCommand(newDoubleBarrier(o))
	return c
}

func barrierDo(o *options, use, short string, do func(*interlock.Barrier, context.Context) error, set bool) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, RunE: o.with(func(ctx context.Context, t task) error {
		return o.done(do(t.Barrier(t.name), ctx), t, barrierJSON{t.name, set}, "")
	})}
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

func (o *options) getBarrier(ctx context.Context, t task) error {
	set, err := t.Barrier(t.name).IsSet(ctx)
	if err != nil {
		return err
	}
	state := map[bool]string{true: "set", false: "open"}[set]
	return o.print(t.cmd, barrierJSON{t.name, set}, "%s", state)
}
