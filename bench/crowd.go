package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/bench/crowd"
)

// aThird is the least of the grants that must be left when most give up.
const aThird = 1.0 / 3

// crowds is the command crowd: many wait for one lock, first patiently, and then
// most of them give up and come back.
func crowds(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("bench crowd", flag.ExitOnError)
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "usage: bench crowd [OPTION]… [BACKEND]…\nbackends: %s\n", strings.Join(crowd.Backends(), ", "))
		set.PrintDefaults()
	}
	var o crowd.Options
	set.IntVar(&o.Waiters, "waiters", 1000, "those who wait, in all processes together")
	set.IntVar(&o.Processes, "processes", 4, "processes, each with one client")
	percent := set.Float64("giving-up", 80, "percent of the waiters that give up")
	set.DurationVar(&o.Patience, "patience", time.Second, "who gives up waits for a random time up to this, and comes back at once")
	set.DurationVar(&o.Time, "time", 20*time.Second, "how long each crowd is watched")
	set.DurationVar(&o.TTL, "ttl", 15*time.Second, "the TTL of the crowd's clients")
	set.DurationVar(&o.Grace, "grace", 30*time.Second, "how long processes may take to get ready, and to end, before they are killed")
	asJSON := set.Bool("json", false, "raw results instead of tables, a JSON object each")
	_ = set.Parse(args) // it exits
	if min(o.Waiters, o.Processes) < 1 || *percent < 0 || *percent > 100 || min(o.Patience, o.Time, o.TTL, o.Grace) <= 0 {
		return errors.New("-waiters, -processes, -patience, -time, -ttl and -grace have to be positive, and -giving-up from 0 to 100")
	}
	backends := set.Args()
	if len(backends) == 0 {
		backends = crowd.Backends()
	}
	for _, b := range backends {
		if !slices.Contains(crowd.Backends(), b) {
			return fmt.Errorf("no backend %q; there are %s", b, strings.Join(crowd.Backends(), ", "))
		}
	}
	r := newReport(os.Stdout, *asJSON)
	r.machine()
	r.title("crowd", fmt.Sprintf("%d waiters in %d processes, one name, StrictOrder; %v each; TTL %v", o.Waiters, o.Processes, o.Time, o.TTL))
	if !r.json {
		r.header("backend", "giving up", "grants/s", "longest without grant s", "leases lost", "connections",
			"others refused", "longest of other s", "gave up", "failed")
	}
	var wrong, goals []string
	for _, b := range backends {
		all, err := pair(ctx, b, o, *percent/100, r)
		if err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
		for _, f := range all {
			for _, w := range f.Wrong() {
				wrong = append(wrong, fmt.Sprintf("%s, %g %% giving up: %s", b, 100*f.GivingUp, w))
			}
			for _, s := range f.Said {
				fmt.Fprintf(os.Stderr, "%s, %g %% giving up: %s\n", b, 100*f.GivingUp, s)
			}
		}
		last := all[len(all)-1]
		end := "reached"
		if last.Ratio < aThird {
			end = "**not reached**"
		}
		goals = append(goals, fmt.Sprintf("- %s, grants/s: at least a third × nobody gives up: %.2f, %s", b, last.Ratio, end))
	}
	fmt.Fprintln(r.comments())
	for _, g := range goals {
		fmt.Fprintln(r.comments(), g)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("wrong results of our lock:\n%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// pair has nobody give up, and then the share, each on a server of its own.
func pair(ctx context.Context, backend string, o crowd.Options, share float64, r *report) ([]crowd.Figures, error) {
	var all []crowd.Figures
	for _, o.GivingUp = range []float64{0, share} {
		o.Progress = func(grants int, left time.Duration) {
			progress("crowd on %s, %g %% giving up: %d grants, %v left", backend, 100*o.GivingUp, grants, left.Round(time.Second))
		}
		f, err := one(ctx, backend, o)
		progress("")
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && all[0].Grants > 0 {
			f.Ratio = f.GrantsASecond / all[0].GrantsASecond
		}
		all = append(all, f)
		if r.json {
			r.object(f)
			continue
		}
		connections := "–"
		if f.Connections >= 0 {
			connections = strconv.Itoa(f.Connections)
		}
		r.line(backend, fmt.Sprintf("%g %%", 100*f.GivingUp), fmt.Sprintf("%.1f", f.GrantsASecond), fmt.Sprintf("%.2f", f.LongestGap),
			strconv.Itoa(f.Lost), connections, fmt.Sprintf("%d of %d", f.Refused, f.Others), fmt.Sprintf("%.2f", f.OtherLongest),
			strconv.Itoa(f.GaveUp), strconv.Itoa(f.Failed))
	}
	return all, nil
}

func one(ctx context.Context, backend string, o crowd.Options) (crowd.Figures, error) {
	s, err := crowd.Start(ctx, backend)
	if err != nil {
		return crowd.Figures{}, err
	}
	defer s.Close()
	return crowd.Run(ctx, s, o)
}
