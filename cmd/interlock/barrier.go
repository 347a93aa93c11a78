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
	wait := waiting{
		what: "barrier",
		wait: func(ctx context.Context, t task) error { return t.Barrier(t.name).Wait(ctx) },
		missing: func(ctx context.Context, t task) (string, error) {
			set, err := t.Barrier(t.name).IsSet(ctx)
			if set {
				return "still set", err
			}
			return "", err
		},
	}
	c := storedGroup(o, "barrier", "Hold processes back until the barrier is removed, or all members have come",
		barrierDo(o, "set NAME", "Close a barrier", (*interlock.Barrier).Set, true),
		barrierDo(o, "remove NAME", "Open a barrier: who waits goes on", (*interlock.Barrier).Remove, false),
		wait.command(o, "Wait until a barrier is open"),
		&cobra.Command{Use: "get NAME", SuggestFor: []string{"show"}, Short: "Write set or open", RunE: o.with(o.getBarrier)})
	c.AddCommand(newDoubleBarrier(o))
	return c
}

func barrierDo(o *options, use, short string, do func(*interlock.Barrier, context.Context) error, set bool) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, RunE: o.with(func(ctx context.Context, t task) error {
		return o.done(do(t.Barrier(t.name), ctx), t, barrierJSON{t.name, set}, "")
	})}
}

func (o *options) getBarrier(ctx context.Context, t task) error {
	set, err := t.Barrier(t.name).IsSet(ctx)
	if err != nil {
		return err
	}
	state := "open"
	if set {
		state = "set"
	}
	return o.print(t.cmd, barrierJSON{t.name, set}, "%s", state)
}
