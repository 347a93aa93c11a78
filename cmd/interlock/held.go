package main

import (
	"os"
	"slices"
	"strings"
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
