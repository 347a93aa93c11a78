package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/driver"
)

func newShow(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a lock and who waits for it, in order",
		Long: `Show shows who holds the lock NAME and who waits for it, in order, and whose work goes on though its lock was lost; and the barrier, the latch
and the value of that name, if there are any.`,
		Args:              exactly("NAME"),
		ValidArgsFunction: completeNames(o),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.with(cmd, func(ctx context.Context, c *interlock.Client) error {
				q, err := c.Queue(ctx, args[0])
				if err != nil {
					return err
				}
				n, err := named(ctx, c, q)
				switch {
				case err != nil:
					return err
				case o.json:
					return writeJSON(cmd.OutOrStdout(), n.json())
				}
				n.show(o.view(cmd.OutOrStdout()))
				return nil
			})
		},
	}
	wideFlag(cmd, o)
	return cmd
}

// known is all that has one name.
type known struct {
	interlock.Queue
	barrier bool   // it is set
	latch   *int64 // what is left; nil: it is not set
	version uint64 // of the value; 0: there is none

	wrong map[string]string // why what is of a kind cannot be read
}

// named adds to a lock what else has its name. What the backend cannot have there, such as a
// barrier of Curator where a lock is, is not there.
func named(ctx context.Context, c *interlock.Client, q interlock.Queue) (known, error) {
	n := known{Queue: q, wrong: map[string]string{}}
	var err error
	if n.barrier, err = c.Barrier(q.Name).IsSet(ctx); err != nil && !driver.IsPermanent(err) {
		return n, err
	}
	left, set, err := c.Latch(q.Name).Count(ctx)
	switch {
	case err != nil && !alone(ctx, err):
		return n, err
	case errors.Is(err, errors.ErrUnsupported):
		return n, nil // the backend has locks only
	case err != nil:
		n.wrong["latch"] = reason(err)
	case set:
		n.latch = &left
	}
	value, err := interlock.NewValue[[]byte](c, q.Name).Get(ctx)
	switch {
	case err != nil && !alone(ctx, err):
		return n, err
	case err != nil:
		n.wrong["value"] = reason(err)
	case value.Exists:
		n.version = value.Version
	}
	return n, nil
}

// nameJSON is how programs see a name.
type nameJSON struct {
	queueJSON
	Barrier string `json:"barrier,omitempty"`       // set
	Latch   *int64 `json:"latch,omitempty"`         // what is left
	Version string `json:"value_version,omitempty"` // of the value

	Unreadable map[string]string `json:"unreadable,omitempty"` // kinds, and why
}

func (n known) json() any {
	j := nameJSON{queueJSON: toJSON(n.Queue), Latch: n.latch, Unreadable: n.wrong}
	if n.barrier {
		j.Barrier = "set"
	}
	if n.version != 0 {
		j.Version = strconv.FormatUint(n.version, 10)
	}
	return j
}

func (n known) title() string { return "" }

func (n known) show(v view) {
	if n.barrier {
		v.printf("the barrier %s is set\n", plain(n.Name))
	}
	if n.latch != nil {
		v.printf("the latch %s is set, %d left\n", plain(n.Name), *n.latch)
	}
	if n.version != 0 {
		v.printf("the value %s has version %d\n", plain(n.Name), n.version)
	}
	for _, kind := range slices.Sorted(maps.Keys(n.wrong)) {
		v.printf("the %s %s cannot be read: %s\n", kind, plain(n.Name), n.wrong[kind])
	}
	switch {
	case len(n.Holders)+len(n.Waiters)+len(n.Overruns) > 0:
		showQueue(v, n.Queue)
	case !n.barrier && n.latch == nil && n.version == 0 && len(n.wrong) == 0:
		v.printf("%s is free%s\n", plain(n.Name), pause(n.Queue))
	}
}

// mostMembers is how many members of a lock are shown to people.
const mostMembers = 10_000

func showQueue(v view, q interlock.Queue) {
	capacity := ""
	if q.Kind == "semaphore" {
		capacity = fmt.Sprintf(" of %d", q.Capacity)
	}
	v.printf("%s, %s%s: held by %d, %d waiting%s\n", plain(q.Name), plain(q.Kind), capacity, len(q.Holders), len(q.Waiters), pause(q))
	s := v.sheet(column{}, column{name: "holder", least: 6}, column{name: "as"}, column{name: "note", least: 4},
		column{name: "token", wide: true}, column{name: v.pick("in line since", "in line")}, column{name: "until"}, column{name: "id"})
	short := shortIDs(q)
	add := func(what string, c text.Color, m interlock.Member) {
		s.add(v.paint(c, what), owner(m), held(q, m), m.Note, token(m), v.since(m.Since), v.until(m), v.pick(m.ID, short(m.ID)))
	}
	holders := q.Holders[:min(len(q.Holders), mostMembers)]
	waiters := q.Waiters[:min(len(q.Waiters), mostMembers-len(holders))]
	for _, m := range holders {
		add("holds", text.FgGreen, m)
	}
	for i, m := range waiters {
		add(fmt.Sprintf("waits %d", i+1), text.FgYellow, m)
	}
	for _, o := range q.Overruns {
		m := interlock.Member{Units: o.Units}
		s.add(v.paint(text.FgRed, "overruns"), o.Owner, held(q, m), o.Note, fmt.Sprint(o.Token), "", v.overrun(o), v.pick(o.ID, o.ID[:8]))
	}
	s.render()
	if more := len(q.Holders) + len(q.Waiters) - len(holders) - len(waiters); more > 0 {
		v.printf("and %d more\n", more)
	}
}
