package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

func newDoctor(o *options) *cobra.Command {
	var deadlocks bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check that the backend can be reached and keeps its promises",
		Long: `Doctor checks whether the backend can be reached, and is configured so that its promises
hold: for each check ok, warn or fail, the promise that is affected, and the remedy. A
backend that answers and refuses to be opened is examined, too: each right that is missing
is named, with the statement that grants it.

With --deadlocks it looks for those who wait for each other for ever, and names them: who
waits, for which lock, since when, and who holds that. It sees the locks of --url, which
can be given several times, and so can --url-file. What it reports is certain: each of
those who wait has been asked, and waits without a time limit. It sees waits that have
lasted for a second, of somebody who holds another lock: in Go by the context of Do or
Bind, in a job of run that runs another one by INTERLOCK_TICKETS.

Exit status: 69 if the backend cannot be reached, 78 if a check fails, 80 if there is a
deadlock.`,
		Example: `  interlock doctor
  interlock doctor --deadlocks`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			backends, err := o.backends(ctx)
			switch {
			case err != nil:
				return err
			case deadlocks:
				return o.deadlocks(ctx, cmd, backends)
			case len(backends) > 1:
				return usage("doctor checks one backend: --url and --url-file are given several times with --deadlocks only")
			}
			b := backends[0]
			findings, unreachable, err := b.examine(ctx)
			if err != nil {
				return err
			}
			findings = append(findings, doctor.Examine(ctx, nil, doctor.Check{Name: "URL", Of: b.exposed})...)
			fails := 0
			for _, f := range findings {
				if f.Status == driver.Fail {
					fails++
				}
			}
			if err := o.report(cmd, b, findings); err != nil {
				return err
			}
			switch {
			case unreachable:
				return &exitError{code: exitUnreachable} // the finding says it
			case fails > 0:
				return failed(exitConfig, fmt.Errorf("doctor: %d of %d checks failed", fails, len(findings)))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&deadlocks, "deadlocks", false, "look for those who wait for each other for ever")
	return cmd
}

// examinationTime is how long doctor has: its checks are some dozens of exchanges.
const examinationTime = 3 * patience

// examine opens the backend and checks it. One that cannot be opened is examined without
// that, as far as it answers.
func (b backend) examine(ctx context.Context) (findings []interlock.Finding, unreachable bool, err error) {
	opening, cancel := answering(ctx, patience)
	defer cancel()
	c, err := b.open(opening)
	if err == nil {
		defer within(lastWord, c.Close)
		ctx, cancel := answering(ctx, examinationTime)
		defer cancel()
		opened := interlock.Finding{Check: "open", Status: driver.OK, Detail: "TTL " + c.TTL().String()}
		findings = append([]interlock.Finding{opened}, c.Admin().Check(ctx)...)
		return findings, ctx.Err() != nil, ended(ctx)
	}
	var exit *exitError
	if !errors.As(err, &exit) || exit.code != exitUnreachable {
		return nil, false, err
	}
	open := interlock.Finding{
		Check: "open", Status: driver.Fail, Detail: doctor.WithoutHint(trim(err)),
		Promise: "no lock can be acquired", Remedy: "see that " + b.shown() + " is right and can be reached",
	}
	if opening.Err() != nil {
		return []interlock.Finding{open}, true, nil // it does not answer
	}
	ctx, cancel = answering(ctx, examinationTime-patience)
	defer cancel()
	findings, err = interlock.Check(ctx, b.url)
	if err == nil {
		open.Remedy = "see the other checks, and try again"
	}
	return append([]interlock.Finding{open}, findings...), err != nil || ctx.Err() != nil, ended(ctx)
}

func (o *options) report(cmd *cobra.Command, b backend, findings []interlock.Finding) error {
	out := cmd.OutOrStdout()
	if o.json {
		return writeJSON(out, findings)
	}
	v := o.display(out)
	v.printf("%s (%s)\n", b.shown(), b.source)
	t := v.sheet(column{}, column{name: "check"}, column{name: "found", wraps: true})
	for _, f := range findings {
		t.add(f.Status, f.Check, painted(whole(f.Detail)))
		if f.Status != driver.OK {
			t.add("", "", painted("affects: "+whole(f.Promise)))
			t.add("", "", painted("remedy: "+whole(f.Remedy)))
		}
	}
	t.render()
	return nil
}
