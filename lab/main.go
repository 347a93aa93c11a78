// Lab lets processes work on real backends while faults disturb them, and checks what they saw against what is
// promised.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock/lab/broken"
	"github.com/interlock-go/interlock/lab/fault"
	"github.com/interlock-go/interlock/lab/report"
	"github.com/interlock-go/interlock/lab/run"
	"github.com/interlock-go/interlock/lab/virtual"
	"github.com/interlock-go/interlock/lab/worker"
	"github.com/interlock-go/interlock/lab/world"
)

const usage = `usage:
  lab run [flags]     let workers work on backends while faults disturb them, and judge
  lab virtual [flags] the same work in simulated time, on the backend in memory
  lab list            name the backends, workloads and faults
  lab report DIR...   judge the histories of runs again, and write DIR/report.html
  lab table DIR...    the same, as the tables of docs/track-record.md
`

func main() {
	worker.Main()
	commands := map[string]func(args []string) error{
		"run": runAll, "virtual": simulate, "list": list, "report": showEach, "table": showTable,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

func runAll(args []string) error {
	world.Apart()
	flags := flag.NewFlagSet("lab run", flag.ExitOnError)
	var o run.Options
	var backends []string
	list := func(to *[]string, name, usage string) {
		flags.Func(name, usage, func(text string) error { *to = words(text); return nil })
	}
	list(&backends, "backend", "backends, separated by commas; without it all")
	list(&o.Workloads, "workload", "workloads; without it all")
	list(&o.Faults, "faults", "faults; without it all; none")
	flags.DurationVar(&o.For, "for", time.Minute, "how long faults come, for each backend")
	flags.StringVar(&o.Library, "library", "",
		"redislock or redsync: locks of others work on the backend redis, to show what the lab finds")
	flags.Uint64Var(&o.Seed, "seed", 0, "of what is drawn at random; 0: another one each time")
	flags.IntVar(&o.Workers, "workers", 4, "processes that work")
	flags.IntVar(&o.Goroutines, "goroutines", 4, "of each")
	page := flags.String("report", "", "file for a page of HTML, which names the backend if there are several")
	asJSON := flags.Bool("json", false, "write the results as JSON")
	dir := flags.String("dir", "",
		"folder for servers and histories; without it a temporary one, which stays if a promise was not kept")
	_ = flags.Parse(args)
	switch {
	case len(worker.Choose(o.Workloads, true)) < max(len(o.Workloads), 1):
		return fmt.Errorf("-workload %s: one is not known: see lab list", strings.Join(o.Workloads, ","))
	case o.Library != "" && (worker.Libraries[o.Library] == nil || !slices.Equal(backends, []string{"redis"})):
		return fmt.Errorf("-library %s: redislock and redsync are known, on -backend redis", o.Library)
	case o.Seed == 0:
		o.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	if len(backends) == 0 {
		for _, k := range world.Kinds {
			backends = append(backends, k.Name)
		}
	}
	for _, text := range fault.Missing() {
		fmt.Fprintln(os.Stderr, "lab:", text)
	}
	base := *dir
	if base == "" {
		var err error
		if base, err = os.MkdirTemp("", "lab-"); err != nil {
			return err
		}
		_ = os.Chmod(base, 0o711)
	}
	var all []*run.Report
	bad := false
	for _, name := range backends {
		o.Backend, o.Dir = name, filepath.Join(base, name)
		r, err := run.Run(o)
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		if err != nil {
			return err
		}
		all = append(all, r)
		if !*asJSON {
			report.Text(os.Stdout, r)
		}
		if *page != "" {
			path := *page
			if len(backends) > 1 {
				path = strings.TrimSuffix(path, ".html") + "-" + name + ".html"
			}
			if err := report.Page(path, r); err != nil {
				return err
			}
		}
		if len(r.Violations) > 0 {
			bad = true
		} else if *dir == "" {
			_ = os.RemoveAll(r.Dir)
		}
	}
	if *asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(all); err != nil {
			return err
		}
	}
	if bad {
		return fmt.Errorf("promises were not kept; the histories are in %s", base)
	}
	_ = os.Remove(base) // if nothing is kept there
	return nil
}

// again judges runs again.
func again(dirs []string, show func(*run.Report) error) error {
	for _, dir := range dirs {
		r, err := run.Again(dir)
		if err == nil {
			err = show(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func showEach(dirs []string) error {
	return again(dirs, func(r *run.Report) error {
		report.Text(os.Stdout, r)
		return report.Page(filepath.Join(r.Dir, "report.html"), r)
	})
}

func showTable(dirs []string) error {
	var all []*run.Report
	err := again(dirs, func(r *run.Report) error { all = append(all, r); return nil })
	if err == nil {
		report.Table(os.Stdout, all)
	}
	return err
}

// simulate runs seeds, as many at once as there are processors, and does not return.
func simulate(args []string) error {
	flags := flag.NewFlagSet("lab virtual", flag.ExitOnError)
	hours := flags.Uint64("hours", 100, "how many hours are simulated, each from a seed of its own")
	seed := flags.Uint64("seed", 1, "the first seed")
	workloads := flags.String("workload", "", "workloads; without it all")
	mistake := flags.String("broken", "", "a broken driver, which has to be caught")
	_ = flags.Parse(args)
	o := virtual.Options{For: time.Hour, Think: 20 * time.Second, Workloads: worker.Choose(words(*workloads), true),
		Break: broken.Named(*mistake)}
	var mu sync.Mutex
	var next, done uint64
	operations, faults, bad, began := 0, 0, 0, time.Now()
	sum := func(to io.Writer, before, after string) {
		fmt.Fprintf(to, "%s%d simulated hours in %v: %d operations, %d faults, %d violations%s", before, done,
			time.Since(began).Round(time.Second), operations, faults, bad, after)
	}
	one := func(t *testing.T, seed uint64) {
		o := o
		o.Seed = seed
		r := virtual.Run(t, o)
		mu.Lock()
		defer mu.Unlock()
		done++
		operations += r.Operations
		faults += r.Disturbances()
		for _, v := range r.Violations {
			bad++
			fmt.Printf("seed %d: NOT KEPT: %s: %s: %s\n  again: make lab LAB='virtual -hours 1 -seed %d'\n",
				seed, v.Promise, v.Object, v.Text, seed)
		}
		sum(os.Stderr, "\r\x1b[K", "")
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		mu.Lock()
		sum(os.Stdout, "", "\n")
		os.Exit(1)
	}()
	debug.SetGCPercent(400)
	virtual.Main(func(t *testing.T) {
		var all sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			all.Go(func() {
				for n := atomic.AddUint64(&next, 1); n <= *hours; n = atomic.AddUint64(&next, 1) {
					t.Run(fmt.Sprint(n), func(t *testing.T) { one(t, *seed+n-1) })
				}
			})
		}
		all.Wait()
		sum(os.Stdout, "", "\n")
		if bad > 0 {
			t.Error("promises were not kept")
		}
	})
	return nil
}

func list([]string) error {
	show("backends", world.Kinds, func(k world.Kind) (string, string) { return k.Name, k.About })
	show("workloads", worker.All, func(w worker.Workload) (string, string) { return w.Name, w.About })
	show("broken drivers, for lab virtual -broken", broken.All,
		func(b broken.Break) (string, string) { return b.Name, b.About })
	show("faults", fault.All, func(f fault.Fault) (string, string) { return f.Name, f.About })
	for _, text := range fault.Missing() {
		fmt.Println("  on this machine", text)
	}
	return nil
}

func show[E any](title string, all []E, of func(E) (name, about string)) {
	fmt.Println(title)
	for _, e := range all {
		name, about := of(e)
		fmt.Printf("  %-14s %s\n", name, about)
	}
}
