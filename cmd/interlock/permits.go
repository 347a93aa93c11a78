package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock/internal/view"
)

type permitsJSON struct {
	Name    string `json:"name"`
	Permits int64  `json:"permits"` // in force; 0: nobody uses it, and none were set
	Set     bool   `json:"set"`
}

func newPermits(o *options) *cobra.Command {
	const long = `The number that is set holds for all programs, whatever number they say, until it is unset.
Waiters who fit now hold at once. Holders keep what they have, also beyond a smaller number:
nobody else gets a permit until enough have been given back. Who asks for more permits than
there are gets an error.

So a number is changed without an end of service: set it, start the programs with the new number
one after the other, and unset it.`
	c := group("permits", "Change the number of permits of a semaphore, also while it is in use",
		&cobra.Command{Use: "get NAME", SuggestFor: []string{"show"}, Short: "Write the number that is in force (exit 66 if there is none)", RunE: o.with(o.getPermits)},
		&cobra.Command{Use: "set NAME N", Short: "Set the number", Long: "Set sets the number of permits of a semaphore.\n\n" + long, RunE: o.with(o.setPermits)},
		&cobra.Command{Use: "unset NAME", Short: "Take the number back that was set", RunE: o.with(o.unsetPermits)})
	c.Long = long
	c.Example = `  interlock permits set exports 8      eight from now on, whatever programs say
  interlock permits get exports        which number is in force
  interlock permits unset exports      once all programs say eight`
	return c
}

func (o *options) getPermits(ctx context.Context, t task) error {
	now, err := o.permits(ctx, t)
	if err == nil && now.Permits == 0 {
		err = failed(exitAbsent, fmt.Errorf("nobody uses a semaphore %s, and no number is set", view.Plain(t.name)))
	}
	return err
}

// permits writes the number, or with --json that there is none.
func (o *options) permits(ctx context.Context, t task) (permitsJSON, error) {
	q, err := t.Admin().Queue(ctx, t.name)
	if err != nil {
		return permitsJSON{}, err
	}
	now := permitsJSON{Name: t.name, Set: q.PermitsSet}
	if q.Kind == "semaphore" {
		now.Permits = q.Capacity
	}
	if now.Permits > 0 || o.json {
		err = o.print(t.cmd, now, "%d", now.Permits)
	}
	return now, err
}

func (o *options) setPermits(ctx context.Context, t task) error {
	n, err := strconv.ParseInt(t.args[1], 10, 64)
	if err != nil || n < 1 {
		return usage("N %q is not a number of permits", t.args[1])
	}
	err = t.Admin().SetPermits(ctx, t.name, n)
	return o.done(err, t, permitsJSON{t.name, n, true}, fmt.Sprintf("%s has %d permits until that is unset", view.Plain(t.name), n))
}

func (o *options) unsetPermits(ctx context.Context, t task) error {
	err := t.Admin().UnsetPermits(ctx, t.name)
	if err == nil && o.json {
		_, err = o.permits(ctx, t)
		return err
	}
	return o.done(err, t, nil, view.Plain(t.name)+" has as many permits as programs say, once nobody uses it")
}
