package main

import (
	"context"
	"errors"
	"fmt"
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
		ValidArgsFunction: completeNames(o),
		RunE: o.with(func(ctx context.Context, t task) error {
			n, err := named(ctx, t.Client, t.name)
			switch {
			case err != nil:
				return err
			case o.json:
				return writeJSON(t.cmd.OutOrStdout(), n.json())
			}
			n.show(o.view(t.cmd.OutOrStdout()))
			return nil
		}),
	}
	wideFlag(cmd, o)
	return cmd
}

// known is all that has one name.
type known struct {
	interlock.Queue
	stored []stored
}

// named reads all that has a name.
func named(ctx context.Context, c *interlock.Client, name string) (known, error) {
	q, err := c.Admin().Queue(ctx, name)
	if err != nil {
		return known{}, err
	}
	return besides(ctx, c, q)
}

// besides adds to a lock what else has its name. What the backend cannot have there, such as a
// barrier of Curator where a lock is, is not there.
func besides(ctx context.Context, c *interlock.Client, q interlock.Queue) (known, error) {
	n := known{Queue: q}
	for _, kind := range []string{"barrier", "latch", "value"} {
		s := stored{Stored: interlock.Stored{Kind: kind, Name: q.Name}}
		there, err := s.read(ctx, c)
		switch {
		case kind == "barrier" && driver.IsPermanent(err):
		case err != nil && (kind == "barrier" || s.wrong == ""):
			return n, err
		case errors.Is(err, errors.ErrUnsupported):
			return n, nil // the backend has locks only
		case there:
			n.stored = append(n.stored, s)
		}
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
	j := nameJSON{queueJSON: toJSON(n.Queue), Unreadable: map[string]string{}}
	for _, s := range n.stored {
		switch {
		case s.wrong != "":
			j.Unreadable[s.Kind] = s.wrong
		case s.Kind == "barrier":
			j.Barrier = "set"
		case s.Kind == "latch":
			j.Latch = &s.left
		default:
			j.Version = strconv.FormatUint(s.version, 10)
		}
	}
	return j
}

func (n known) title() string { return "" }

func (n known) show(v view) {
	for _, s := range n.stored {
		v.printf("the %s %s %s\n", s.Kind, plain(n.Name), s.told())
	}
	switch {
	case len(n.Holders)+len(n.Waiters)+len(n.Overruns) > 0:
		showQueue(v, n.Queue)
	case len(n.stored) == 0:
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
