package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

func newShow(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "show NAME",
		SuggestFor: []string{"queue", "get", "holder"},
		Short:      "Show who holds a lock and who waits for it, in order",
		Long: `Show shows who holds the lock NAME, who waits for it, in order, and which programs work on after
they have lost it; and the barrier, the latch and the value of that name, if there are any.`,
		RunE: o.with(func(ctx context.Context, t task) error {
			n, err := view.Named(ctx, t.Client, t.name)
			switch {
			case err != nil:
				return err
			case o.json:
				return writeJSON(t.cmd.OutOrStdout(), n)
			}
			o.display(t.cmd.OutOrStdout()).fit(known{n}.show)
			return nil
		}),
	}
	formFlag(cmd, o, "wide")
	return cmd
}

// known is all that has one name.
type known struct{ view.Name }

func (n known) json(at time.Time) any {
	return struct {
		Time time.Time `json:"time"`
		view.Name
	}{at, n.Name}
}

func (n known) title() string { return "" }
func (n known) locks() list   { return list{n.Queue} }

func (n known) show(v display) {
	for _, s := range n.Stored {
		v.printf("the %s %s %s\n", s.Kind, view.Plain(n.Queue.Name), told(s))
	}
	switch {
	case len(n.Holders)+len(n.Waiters)+len(n.Overruns) > 0:
		showQueue(v, n.Queue)
	case len(n.Stored) == 0:
		v.printf("%s is free%s\n", view.Plain(n.Queue.Name), pause(n.Queue))
	}
}

// mostMembers is how many members of a lock are shown to people.
const mostMembers = 10_000

func showQueue(v display, q interlock.Queue) {
	capacity := ""
	if q.Kind == "semaphore" {
		capacity = fmt.Sprintf(" of %d", q.Capacity)
	}
	v.printf("%s, %s%s: held by %d, %d waiting%s\n", view.Plain(q.Name), view.Plain(q.Kind), capacity, len(q.Holders), len(q.Waiters), pause(q))
	s := v.sheet(column{}, column{name: "holder", least: 6}, column{name: "as"}, column{name: "note", least: 4},
		column{name: "token", wide: true}, column{name: v.pick("in line since", "in line")}, column{name: "until"}, column{name: "id"})
	short := shortIDs(q)
	add := func(what string, c text.Color, m interlock.Member) {
		s.add(v.paint(c, what), owner(m), view.Held(q, m), m.Note, view.Token(m), v.since(m.Since), v.until(m), v.pick(m.ID, short(m.ID)))
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
		s.add(v.paint(text.FgRed, "overruns"), o.Owner, view.Held(q, m), o.Note, fmt.Sprint(o.Token), "", v.overrun(o), v.pick(o.ID, o.ID[:8]))
	}
	s.render()
	if more := len(q.Holders) + len(q.Waiters) - len(holders) - len(waiters); more > 0 {
		v.printf("and %d more\n", more)
	}
}
