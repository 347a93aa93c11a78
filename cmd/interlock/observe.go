package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newObserve(o *options) *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "observe NAME",
		Short: "Show who leads an election, and every change, until interrupted",
		Long: `Observe writes a line for the leader, and another after every change: the time, the
value that the leader has set or campaigns with, and its owner; "-" if nobody leads.`,
		Args:              exactly("NAME"),
		ValidArgsFunction: completeNames(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.streams(cmd, func(ctx context.Context, c *interlock.Client) error {
				out := cmd.OutOrStdout()
				for leader, err := range c.Election(args[0]).Observe(ctx) {
					switch {
					case err != nil:
						return err
					case o.json:
						j := struct {
							Time   time.Time   `json:"time"`
							Leader *memberJSON `json:"leader"`
						}{Time: time.Now()}
						if leader.ID != "" {
							j.Leader = &toJSON(interlock.Queue{Holders: []interlock.Member{leader}}).Holders[0]
						}
						if err := writeJSON(out, j); err != nil {
							return err
						}
					default:
						who := "-"
						if leader.ID != "" {
							who = plain(leader.Note) + " " + plain(leader.Owner)
						}
						if _, err := fmt.Fprintln(people{out}, time.Now().Format(time.TimeOnly), who); err != nil {
							return err
						}
					}
					if once {
						return nil
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "only the leader of now")
	return cmd
}
