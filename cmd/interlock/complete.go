package main

import (
	"context"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
)

// mostOffers is how many words the shell gets to choose from.
const mostOffers = 100

// offer asks the backend for the words that an argument may be completed to; a tab is before what
// one means. It is given little time, and nothing is said if it does not answer: who types cannot
// read that.
func (o *options) offer(cmd *cobra.Command, begin string, words func(ctx context.Context, c *interlock.Client) iter.Seq2[string, error]) (found []cobra.Completion, _ cobra.ShellCompDirective) {
	cmd.SetErr(io.Discard)
	_ = o.connect(cmd, lastWord, func(ctx context.Context, c *interlock.Client) error {
		for w, err := range words(ctx, c) {
			if err != nil || len(found) == mostOffers {
				return err
			}
			if strings.HasPrefix(w, begin) && !strings.ContainsFunc(strings.Replace(w, "\t", "", 1), steers) && !slices.Contains(found, w) {
				found = append(found, w)
			}
		}
		return nil
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeNames offers the names of locks that are in use; what comes behind the name is for
// the shell to complete.
func completeNames(o *options) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return o.offer(cmd, begin, func(ctx context.Context, c *interlock.Client) iter.Seq2[string, error] {
			return locks(ctx, c, begin)
		})
	}
}

func locks(ctx context.Context, c *interlock.Client, begin string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for q, err := range c.Queues(ctx, begin) {
			if !yield(q.Name, err) {
				return
			}
		}
	}
}

// completeStored offers the names of what is stored of one kind.
func completeStored(o *options, kind string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.offer(cmd, begin, func(ctx context.Context, c *interlock.Client) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for s, err := range c.Stored(ctx, begin) {
					if (err != nil || s.Kind == kind) && !yield(s.Name, err) {
						return
					}
				}
			}
		})
	}
}

// completeMembers offers the names of locks, and then the IDs of who holds them, and of who
// waits if that is wanted too.
func completeMembers(o *options, waiters bool) cobra.CompletionFunc {
	names := completeNames(o)
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return names(cmd, args, begin)
		}
		return o.offer(cmd, begin, func(ctx context.Context, c *interlock.Client) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				q, err := c.Queue(ctx, args[0])
				if err != nil {
					yield("", err)
					return
				}
				short := shortIDs(q)
				for _, m := range q.Holders {
					if !yield(cobra.CompletionWithDesc(short(m.ID), "holds: "+owner(m)), nil) {
						return
					}
				}
				for _, m := range q.Waiters {
					if waiters && !yield(cobra.CompletionWithDesc(short(m.ID), "waits: "+owner(m)), nil) {
						return
					}
				}
			}
		})
	}
}

// completeSignals offers the names of signals.
func completeSignals(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return signalNames(), cobra.ShellCompDirectiveNoFileComp
}
