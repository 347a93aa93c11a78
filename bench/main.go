// Command bench measures Interlock beside what it competes with, all in one run
// on one machine. Figures of two runs cannot be compared, their ratios can.
//
//	cd bench && GOWORK=off go run .
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// workload is one measurement.
type workload struct {
	name string
	what string
	run  func(ctx context.Context, r *report) error
}

var workloads = []workload{
	{"uncontended", "one goroutine, one name: acquire and release", uncontended},
	{"goroutines", "10,000 goroutines of one process, one name", goroutines},
	{"crowd", "10, 100, 1,000 waiters in 8 processes, one name, StrictOrder", crowd},
}

var repeat = flag.Int("repeat", 3, "repetitions of each measurement, alternating; the median counts")

func main() {
	if os.Getenv(crowdVariable) != "" {
		exit(crowdProcess())
	}
	var names []string
	for _, w := range workloads {
		names = append(names, w.name)
	}
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: bench [-repeat N] [WORKLOAD]…\nworkloads: %s\n", strings.Join(names, " "))
	}
	flag.Parse()
	for _, arg := range flag.Args() {
		if !slices.Contains(names, arg) {
			exit(fmt.Errorf("unknown workload %q; there are %s", arg, strings.Join(names, ", ")))
		}
	}
	machine(os.Stdout)
	for _, w := range workloads {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), w.name) {
			continue
		}
		fmt.Printf("\n## %s: %s\n\n", w.name, w.what)
		r := newReport(os.Stdout)
		if err := w.run(context.Background(), r); err != nil {
			exit(fmt.Errorf("%s: %w", w.name, err))
		}
	}
	exit(nil)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
