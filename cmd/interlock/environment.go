package main

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/parentjob"
)

// The variables that tell a job of its locks, beside heldVariable. A value of an outer job would
// stand before that of this one, and be taken by most programs.
const (
	nameVariable      = "INTERLOCK_NAME"
	tokenVariable     = "INTERLOCK_TOKEN"
	exclusiveVariable = "INTERLOCK_EXCLUSIVE"
)

func (j *job) environment(l *interlock.Lease) []string {
	own := map[string]string{
		nameVariable:      strings.Join(j.names, "\n"),
		tokenVariable:     strings.Join(tokens(l), "\n"),
		exclusiveVariable: exclusive(l),
		heldVariable:      nested(heldVariable, j.entries),
		ticketsVariable:   nested(ticketsVariable, ticketsOf(l)),
	}
	if j.flags.passURL {
		own[urlVariable] = j.backend.url
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, given := own[name]
		return given || name == urlVariable
	})
	for name, value := range own {
		env = append(env, name+"="+value)
	}
	return env
}

// exclusive is yes if nobody else holds any of the locks at the same time, else no.
func exclusive(l *interlock.Lease) string {
	if l.Exclusive() {
		return "yes"
	}
	return "no"
}

// tokens has the token of each lock, in the order of the names.
func tokens(l *interlock.Lease) (all []string) {
	for _, p := range l.Parts() {
		all = append(all, strconv.FormatUint(p.Token(), 10))
	}
	return all
}

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
	return parentjob.With(ctx, strings.Fields(os.Getenv(ticketsVariable)))
}

func ticketsOf(l *interlock.Lease) (all []string) {
	for _, p := range l.Parts() {
		all = append(all, ticketOf(p))
	}
	return all
}

func heldAlready(entry string) bool {
	return slices.Contains(strings.Split(os.Getenv(heldVariable), "\n"), entry)
}

// nested is a variable's value for a job inside this one: the lines of this one, and more.
func nested(variable string, more []string) string {
	if outer := os.Getenv(variable); outer != "" {
		more = append([]string{outer}, more...)
	}
	return strings.Join(more, "\n")
}
