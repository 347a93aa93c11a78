package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
)

type latchJSON struct {
	Name string `json:"name"`
	Set  bool   `json:"set"`
	Left int64  `json:"left"`
}

func newLatch(o *options) *cobra.Command {
	wait := waiting{
		what:    "latch",
		wait:    func(ctx context.Context, t task) error { return t.Latch(t.name).Wait(ctx) },
		missing: latchMissing,
	}
	return storedGroup(o, "latch", "A count-down that processes wait for",
		&cobra.Command{Use: "set NAME COUNT", Short: "Start a latch (exit 75 if it is set already)", RunE: o.with(o.setLatch)},
		&cobra.Command{Use: "count-down NAME", Short: "Take one off, and write what is left", RunE: o.with(o.countDown)},
		wait.command(o, "Wait until a latch is set and its count is zero"),
		&cobra.Command{Use: "get NAME", SuggestFor: []string{"show"}, Short: "Write the count, or - if the latch is not set", RunE: o.with(o.getLatch)},
		&cobra.Command{Use: "reset NAME", Short: "Make a latch as if it had never been set", RunE: o.with(o.resetLatch)})
}

func (o *options) setLatch(ctx context.Context, t task) error {
	n, err := strconv.ParseInt(t.args[1], 10, 64)
	if err != nil {
		return usage("COUNT %q is no number", t.args[1])
	}
	set, err := t.Latch(t.name).Set(ctx, n)
	if err == nil && !set {
		return failed(exitBusy, fmt.Errorf("latch %s is set already (interlock latch reset %s frees it)", t.name, t.name))
	}
	return o.done(err, t, latchJSON{t.name, true, n}, "")
}

func (o *options) countDown(ctx context.Context, t task) error {
	l := t.Latch(t.name)
	left, err := l.CountDown(ctx)
	if err != nil {
		if _, set, wrong := l.Count(ctx); wrong == nil && !set {
			return failed(exitAbsent, err)
		}
		return err
	}
	return o.print(t.cmd, latchJSON{t.name, true, left}, "%d", left)
}

func latchMissing(ctx context.Context, t task) (string, error) {
	left, set, err := t.Latch(t.name).Count(ctx)
	switch {
	case err != nil, set && left == 0:
		return "", err
	case set:
		return fmt.Sprintf("%d left", left), nil
	}
	return "not set", nil
}

func (o *options) getLatch(ctx context.Context, t task) error {
	left, set, err := t.Latch(t.name).Count(ctx)
	switch now := (latchJSON{t.name, set, left}); {
	case err != nil:
		return err
	case set:
		return o.print(t.cmd, now, "%d", left)
	default:
		return o.print(t.cmd, now, "-")
	}
}

func (o *options) resetLatch(ctx context.Context, t task) error {
	return o.done(t.Latch(t.name).Reset(ctx), t, latchJSON{Name: t.name}, "")
}
