// Command bench measures Interlock beside what it competes with, all in one run
// on one machine. Figures of two runs cannot be compared, their ratios can.
//
//	cd bench && GOWORK=off go run .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/bench/etcd"
	"github.com/interlock-go/interlock/bench/file"
	"github.com/interlock-go/interlock/bench/mariadb"
	"github.com/interlock-go/interlock/bench/postgres"
	"github.com/interlock-go/interlock/bench/redis"
	"github.com/interlock-go/interlock/bench/sqlite"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/bench/zookeeper"
)

// backends are what contenders compete on, in the order in which they are measured.
var backends = []workload.Backend{
	sqlite.Backend(), file.Backend(), redis.Backend(), zookeeper.Backend(), etcd.Backend(), postgres.Backend(), mariadb.Backend(),
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	commands := map[string]func(context.Context, []string) error{"compare": compare, "cost": cost, "table": table}
	var err error
	if command := commands[strings.Join(os.Args[1:min(2, len(os.Args))], "")]; command != nil {
		err = command(ctx, os.Args[2:])
	} else {
		err = speed(ctx, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// speed runs the workloads that are chosen.
func speed(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("bench", flag.ExitOnError)
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "usage: bench [OPTION]… [BACKEND | WORKLOAD | BACKEND/WORKLOAD]…\n       bench cost [OPTION]… [BACKEND]…\n       bench table [OPTION]\n       bench compare BEFORE.jsonl AFTER.jsonl\n")
		set.PrintDefaults()
	}
	var e workload.Env
	repeat := set.Int("repeat", 3, "repetitions of each workload, in which the contenders take turns; the median counts")
	set.DurationVar(&e.Time, "time", time.Second, "how long each contender runs, except in W5, in each repetition")
	set.DurationVar(&e.Limit, "limit", 15*time.Second, "how long those who wait may take to get through")
	set.IntVar(&e.Waiters, "waiters", 1000, "waiters of W5, each with a client of its own")
	only := set.String("only", "", "a regular expression for the names of contenders")
	list := set.Bool("list", false, "list workloads and contenders")
	asJSON := set.Bool("json", false, "each repetition as a JSON object instead of tables")
	running := map[string]*string{}
	for _, b := range backends {
		running[b.Name] = set.String(b.Name, "", "the `URL` of a server that is running; else one is started")
	}
	_ = set.Parse(args) // it exits
	if min(*repeat, e.Waiters) < 1 || min(e.Time, e.Limit) <= 0 {
		return errors.New("-repeat, -waiters, -time and -limit have to be positive")
	}
	names, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	for _, arg := range set.Args() {
		if !slices.ContainsFunc(backends, func(b workload.Backend) bool { return len(chosen(b, []string{arg})) > 0 }) {
			return fmt.Errorf("unknown workload %q; -list lists them", arg)
		}
	}
	r := report{out: os.Stdout, json: *asJSON}
	if !*list {
		r.machine()
	}
	var wrong []string
	for _, b := range backends {
		workloads := chosen(b, set.Args())
		contenders := func(w workload.Workload, url string) []workload.Contender {
			return slices.DeleteFunc(b.Contenders(url), func(c workload.Contender) bool {
				return !w.Takes(c) || !names.MatchString(c.Name)
			})
		}
		if *list {
			for _, w := range workloads {
				fmt.Printf("%s/%s: %s\n", b.Name, w.Name, w.What)
				for _, c := range contenders(w, "") {
					fmt.Printf("    %s: %s\n", c.Name, c.Settings)
				}
			}
			continue
		}
		if len(workloads) == 0 {
			continue
		}
		server := workload.Server{URL: *running[b.Name], About: *running[b.Name], Close: func() {}}
		if server.URL == "" {
			if server, err = b.Start(ctx); err != nil {
				return fmt.Errorf("%s: %w", b.Name, err)
			}
		}
		r.text("\n# %s\n\n%s\n", b.Name, server.About)
		for _, w := range workloads {
			r.text("\n## %s/%s: %s\n\n", b.Name, w.Name, w.What)
			wrong = append(wrong, measure(ctx, b.Name, w, contenders(w, server.URL), e, *repeat, &r)...)
		}
		server.Close()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("wrong results of our lock:\n%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// chosen are the workloads of a backend that an argument names: as a whole, by the
// backend, or by the workload.
func chosen(b workload.Backend, args []string) []workload.Workload {
	return slices.DeleteFunc(workload.All(), func(w workload.Workload) bool {
		return len(args) > 0 && !slices.ContainsFunc(args, func(a string) bool {
			return a == b.Name || a == w.Name || a == b.Name+"/"+w.Name
		})
	})
}

// measure has the contenders take turns, and returns what ours did that no lock may
// do. A contender that did not get through in one turn has no other.
func measure(ctx context.Context, backend string, w workload.Workload, contenders []workload.Contender, e workload.Env, repeat int, r *report) (wrong []string) {
	results := make([][]workload.Result, len(contenders))
	for n := range repeat {
		for i, c := range contenders {
			if ctx.Err() != nil {
				return wrong
			}
			if slices.ContainsFunc(results[i], func(r workload.Result) bool { return !r.Finished() }) {
				continue
			}
			one := w.Run(ctx, c, e)
			one.Backend, one.Repetition = backend, n+1
			r.object(one)
			results[i] = append(results[i], one)
		}
	}
	r.header(append(append([]string{"contender"}, w.Figures...), "mistakes", "settings")...)
	for i, c := range contenders {
		m := workload.Median(results[i])
		r.result(w, m, c.Settings)
		if c.Ours && m.Bad() {
			wrong = append(wrong, fmt.Sprintf("%s/%s, %s: %s", backend, w.Name, c.Name, mistakes(m)))
		}
	}
	return wrong
}
