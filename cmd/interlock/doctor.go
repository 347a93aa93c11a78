package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

type findingJSON struct {
	Check   string `json:"check"`
	Status  string `json:"status"`
	Detail  string `json:"detail"`
	Promise string `json:"promise,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

func newDoctor(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check that the backend can be reached and keeps its promises",
		Long: `Doctor checks whether the backend can be reached, and is configured so that its promises
hold: for each check ok, warn or fail, the promise that is affected, and the remedy. It
exits with 1 if a check fails.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			findings, b, err := o.examine(ctx)
			if err != nil {
				return err
			}
			fails := 0
			for _, f := range findings {
				if f.Status == driver.Fail {
					fails++
				}
			}
			if err := o.report(cmd, b, findings); err != nil {
				return err
			}
			if fails > 0 {
				return failed(exitFailed, fmt.Errorf("doctor: %d of %d checks failed", fails, len(findings)))
			}
			return nil
		},
	}
}

// examine makes a backend that cannot be opened a finding like any other.
func (o *options) examine(ctx context.Context) ([]interlock.Finding, backend, error) {
	c, b, err := o.open(ctx)
	if err == nil {
		defer c.Close()
		return append([]interlock.Finding{{Check: "open", Status: driver.OK, Detail: "TTL " + c.TTL().String()}}, c.Check(ctx)...), b, nil
	}
	var exit *exitError
	if !errors.As(err, &exit) || exit.code != exitUnreachable {
		return nil, b, err
	}
	return []interlock.Finding{{
		Check: "open", Status: driver.Fail, Detail: trim(err),
		Promise: "no lock can be acquired", Remedy: "see that " + b.shown() + " is right and can be reached",
	}}, b, nil
}

func (o *options) report(cmd *cobra.Command, b backend, findings []interlock.Finding) error {
	out := cmd.OutOrStdout()
	if o.json {
		list := []findingJSON{}
		for _, f := range findings {
			list = append(list, findingJSON{f.Check, string(f.Status), f.Detail, f.Promise, f.Remedy})
		}
		return writeJSON(out, list)
	}
	fmt.Fprintf(out, "%s (%s)\n", b.shown(), b.source)
	t := newTable(out, "", "check", "found")
	for _, f := range findings {
		t.AppendRow([]any{f.Status, f.Check, f.Detail})
		if f.Status != driver.OK {
			t.AppendRow([]any{"", "", "affects: " + f.Promise})
			t.AppendRow([]any{"", "", "remedy: " + f.Remedy})
		}
	}
	t.Render()
	return nil
}
