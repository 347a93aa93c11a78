package main

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/outer"
)

// heldVariable tells a job which locks it runs under, a line each, so that a
// nested run of one of them fails instead of waiting for ever.
const heldVariable = "INTERLOCK_HELD"

// heldEntry identifies a lock among all backends.
func heldEntry(b backend, name string) string { return b.shown() + " " + name }

// holds reports whether one of the locks that INTERLOCK_HELD lists is on this backend.
func (b backend) holds(held string) bool {
	return slices.ContainsFunc(strings.Split(held, "\n"), func(entry string) bool { return strings.HasPrefix(entry, heldEntry(b, "")) })
}

// ticketsVariable tells a job the IDs of the tickets that it runs under, a line each: a wait of a nested
// command is one of somebody who holds these.
const ticketsVariable = "INTERLOCK_TICKETS"

// waitsUnder returns a context whose waits are those of the job that this process is part of.
func waitsUnder(ctx context.Context) context.Context {
	return outer.With(ctx, strings.Fields(os.Getenv(ticketsVariable)))
}

// ticketsBy returns the variable's value for a job under one more lease.
func ticketsBy(l *interlock.Lease) string {
	all := strings.Fields(os.Getenv(ticketsVariable))
	for _, p := range l.Parts() {
		id, _, _ := strings.Cut(p.ID(), ".")
		all = append(all, id)
	}
	return strings.Join(all, "\n")
}

func heldAlready(entry string) bool {
	return slices.Contains(strings.Split(os.Getenv(heldVariable), "\n"), entry)
}

// heldBy returns the variable's value for a job under one more lock.
func heldBy(entry string) string {
	if outer := os.Getenv(heldVariable); outer != "" {
		return outer + "\n" + entry
	}
	return entry
}
