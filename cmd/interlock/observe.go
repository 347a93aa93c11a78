package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

type leaderJSON struct {
	Time   time.Time         `json:"time"`
	Leader *interlock.Member `json:"leader"`
}

func newObserve(o *options) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "observe NAME",
		Short: "Show who leads an election, and every change, until interrupted",
		Long: `Observe writes a line for the leader, and another after every change: the time, the
value that the leader has set or campaigns with, and its owner; "-" if nobody leads.`,
		RunE: o.streams(func(ctx context.Context, t task) error {
			for leader, err := range t.Election(t.name).Observe(ctx) {
				if err != nil {
					return err
				}
				j, who := leaderJSON{Time: time.Now()}, "-"
				if leader.ID != "" {
					j.Leader = &leader
					who = view.Plain(leader.Note) + " " + view.Plain(leader.Owner)
				}
				if err := o.print(t.cmd, j, "%s %s", j.Time.Format(time.TimeOnly), who); err != nil || once {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&once, "once", false, "only the leader of now")
	return cmd
}
