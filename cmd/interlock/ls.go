package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newLs(o *options) *cobra.Command {
	return &cobra.Command{
		Use:     "ls [PREFIX]",
		Aliases: []string{"list"},
		Short:   "List the locks that somebody holds or waits for",
		Long: `Ls lists the locks that somebody holds or waits for, whose names begin with PREFIX: a
line for each holder. With --json it writes an array of objects, as show does one.`,
		Args:              atMostPrefix,
		ValidArgsFunction: completeNames(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := ""
			if len(args) > 0 {
				prefix = args[0]
			}
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				queues := []interlock.Queue{}
				for q, err := range c.Queues(ctx, prefix) {
					if err != nil {
						return err
					}
					queues = append(queues, q)
				}
				if o.json {
					list := []queueJSON{}
					for _, q := range queues {
						list = append(list, toJSON(q))
					}
					return writeJSON(cmd.OutOrStdout(), list)
				}
				if len(queues) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), "no locks are in use")
					return nil
				}
				t := newTable(cmd.OutOrStdout(), "name", "held as", "holder", "note", "token", "in line since", "until", "waiting")
				for _, q := range queues {
					name, waiting := plain(q.Name), fmt.Sprint(len(q.Waiters))
					for _, m := range q.Holders {
						t.AppendRow([]any{name, held(q, m), plain(m.Owner), plain(m.Note), token(m), since(m.Since), until(m), waiting})
						waiting = ""
					}
					if len(q.Holders) == 0 {
						t.AppendRow([]any{name, q.Kind, "-", "", "", "", "", waiting})
					}
				}
				t.Render()
				return nil
			})
		},
	}
}

func atMostPrefix(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exactly("PREFIX")(cmd, args)
}
