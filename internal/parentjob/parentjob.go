// Package parentjob tells a process what the one that started it holds: the job of interlock run, for as
// long as it runs, works under the locks of that.
package parentjob

import "context"

type key struct{}

// With returns a context whose waits are those of somebody who holds these tickets, by their IDs, in
// another process.
func With(ctx context.Context, tickets []string) context.Context {
	if len(tickets) == 0 {
		return ctx
	}
	return context.WithValue(ctx, key{}, tickets)
}

// Tickets returns what With was given.
func Tickets(ctx context.Context) []string {
	tickets, _ := ctx.Value(key{}).([]string)
	return tickets
}
