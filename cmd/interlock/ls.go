package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/view"
)

// nothing says that there is nothing to list.
func nothing(all bool, prefix string) string {
	text := "no locks are in use"
	if all {
		text = "no locks are in use, and nothing is set"
	}
	if prefix != "" {
		text += " below " + view.Plain(prefix)
	}
	return text
}

func newLs(o *options) *cobra.Command {
	var (
		all    bool
		choice view.Choice
	)
	cmd := &cobra.Command{
		Use:        "ls [PREFIX]",
		SuggestFor: []string{"status", "locks"},
		Aliases:    []string{"list"},
		Short:      "List the locks that are held or waited for; with --all, all that is stored",
		Long: `Ls lists the locks that are held or waited for, and whose names begin with PREFIX: a line for
each holder, and for each program that works on after it has lost its lock. With --all it also
lists the values that exist, and the latches and barriers that are set. With --json it writes an
array of objects, each as show writes it.`,
		RunE: o.with(func(ctx context.Context, t task) error {
			l, left := listed(ctx, t.Client, t.name)
			l = choice.Of(l, time.Now())
			var kept []view.Stored
			if all && view.Alone(ctx, left) {
				var unread error
				kept, unread = view.AllStored(ctx, t.Client, t.name, math.MaxInt)
				left = cmp.Or(left, unread)
			}
			if left != nil && len(l)+len(kept) == 0 {
				return left
			}
			out := t.cmd.OutOrStdout()
			if o.json {
				objects := []any{}
				for _, q := range l {
					objects = append(objects, q)
				}
				for _, s := range kept {
					objects = append(objects, s)
				}
				return cmp.Or(left, writeJSON(out, objects))
			}
			if len(l)+len(kept) == 0 {
				say(t.cmd, "%s", nothing(all, t.name))
			}
			if o.form == "name" {
				for _, q := range l {
					fmt.Fprintln(people{out}, q.Name)
				}
				for _, s := range kept {
					fmt.Fprintln(people{out}, s.Name)
				}
				return left
			}
			o.display(out).fit(l.show)
			if len(l) > 0 && len(kept) > 0 {
				fmt.Fprintln(out)
			}
			o.display(out).fit(func(v display) { showStored(v, kept) })
			return left
		}),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "values, latches and barriers too")
	choose(cmd, &choice)
	formFlag(cmd, o, "wide", "name")
	return cmd
}

// list is what ls shows.
type list []interlock.Queue

// listed is what can be read, also if there is an error: a row that cannot be read hides no other.
func listed(ctx context.Context, c *interlock.Client, prefix string) (list, error) {
	var l list
	for q, err := range c.Admin().Queues(ctx, prefix) {
		if err != nil {
			return l, err
		}
		l = append(l, q)
	}
	return l, nil
}

func (l list) json(at time.Time) any {
	return struct {
		Time  time.Time `json:"time"`
		Locks list      `json:"locks"`
	}{at, l}
}

func (l list) title() string { return fmt.Sprintf("locks in use: %d\n", len(l)) }
func (l list) locks() list   { return l }

func (l list) show(v display) {
	if len(l) == 0 {
		return
	}
	s := v.sheet(column{name: "name", least: 12, rank: 1}, column{name: "held as"}, column{name: "holder", least: 6},
		column{name: "note", least: 4}, column{name: "token", wide: true}, column{name: v.pick("in line since", "in line")},
		column{name: "until"}, column{name: "waiting"})
	for _, q := range l {
		name, waiting := q.Name, painted(fmt.Sprint(len(q.Waiters)))
		if len(q.Waiters) > 0 {
			waiting = v.paint(text.FgYellow, string(waiting))
		}
		for i, m := range q.Holders {
			if i == mostMembers {
				s.add(name, fmt.Sprintf("and %d more", len(q.Holders)-i), "", "", "", "", "", "")
				break
			}
			s.add(name, view.Held(q, m), owner(m), m.Note, view.Token(m), v.since(m.Since), v.until(m), waiting)
			waiting = ""
		}
		if len(q.Holders) == 0 {
			s.add(name, q.Kind, "-", "", "", "", "", waiting)
		}
		for _, o := range q.Overruns {
			s.add("", v.paint(text.FgRed, "overruns"), o.Owner, o.Note, fmt.Sprint(o.Token), "", v.overrun(o), "")
		}
	}
	s.render()
	if why := pause(l[0]); why != "" {
		v.printf("%s\n", strings.TrimPrefix(why, "; "))
	}
}
