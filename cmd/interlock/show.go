package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

func newShow(o *options) *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show who holds a lock and who waits for it, in order",
		Args:              exactly("NAME"),
		ValidArgsFunction: completeNames(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				q, err := current(ctx, c, args[0])
				if err != nil {
					return err
				}
				if o.json {
					return writeJSON(cmd.OutOrStdout(), toJSON(q))
				}
				showQueue(cmd.OutOrStdout(), q)
				return nil
			})
		},
	}
}

func showQueue(w io.Writer, q interlock.Queue) {
	if len(q.Holders)+len(q.Waiters) == 0 {
		fmt.Fprintf(w, "%s is free\n", plain(q.Name))
		return
	}
	capacity := ""
	if q.Kind == "semaphore" {
		capacity = fmt.Sprintf(" of %d", q.Capacity)
	}
	fmt.Fprintf(w, "%s, %s%s: held by %d, %d waiting\n", plain(q.Name), q.Kind, capacity, len(q.Holders), len(q.Waiters))
	t := newTable(w, "", "holder", "as", "note", "token", "in line since", "until", "id")
	for _, m := range q.Holders {
		t.AppendRow([]any{"holds", plain(m.Owner), held(q, m), plain(m.Note), token(m), since(m.Since), until(m), m.ID})
	}
	for i, m := range q.Waiters {
		t.AppendRow([]any{fmt.Sprintf("waits %d", i+1), plain(m.Owner), held(q, m), plain(m.Note), "", since(m.Since), until(m), m.ID})
	}
	t.Render()
}
