// Command bench measures Interlock beside what it competes with, all in one run
// on one machine. Figures of two runs cannot be compared, their ratios can.
//
//	cd bench && GOWORK=off go run .
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/interlock-go/interlock/bench/crowd"
	"github.com/interlock-go/interlock/bench/etcd"
	"github.com/interlock-go/interlock/bench/file"
	"github.com/interlock-go/interlock/bench/mariadb"
	"github.com/interlock-go/interlock/bench/postgres"
	"github.com/interlock-go/interlock/bench/redis"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/bench/zookeeper"
)

// measurement is one workload on one backend.
type measurement struct {
	backend, name string
	what          string
	run           func(ctx context.Context, r *report) error
}

func (m measurement) String() string { return m.backend + "/" + m.name }

// chosen reports whether an argument means it: the whole name, the backend or
// the workload.
func (m measurement) chosen(args []string) bool {
	return len(args) == 0 || slices.ContainsFunc(args, func(a string) bool {
		return a == m.String() || a == m.backend || a == m.name
	})
}

var (
	repeat     = flag.Int("repeat", 3, "repetitions of each measurement, alternating; the median counts")
	timed      = flag.Duration("time", time.Second, "how long each contender runs in W1 to W4, in each repetition")
	limit      = flag.Duration("limit", 15*time.Second, "how long those who wait may take to get through")
	grace      = flag.Duration("grace", 2*time.Minute, "how much longer a contender may take in all before it is left behind as hung")
	waiters    = flag.Int("waiters", 1000, "waiters of W5: 1000, 5000, 10000")
	clients    = flag.Int("clients", 1000, "clients that the waiters of W5 share, if they are more")
	leases     = flag.Int("leases", 10000, "leases of W8")
	only       = flag.String("only", "", "a regular expression for the names of contenders")
	list       = flag.Bool("list", false, "list workloads and contenders")
	asJSON     = flag.Bool("json", false, "raw results instead of tables, a JSON object each")
	atRedis    = flag.String("redis", "", "the URL of a Redis that is running; else one is started")
	atPostgres = flag.String("postgres", "", "the URL of a PostgreSQL that is running; else one is started")
	atMariaDB  = flag.String("mariadb", "", "the URL of a MariaDB that is running; else one is started")
)

func main() {
	if os.Getenv(drainVariable) != "" {
		exit(drainProcess())
	}
	if os.Getenv(crowd.Variable) != "" {
		exit(crowd.Member())
	}
	if h := os.Getenv(workload.HolderVariable); h != "" {
		exit(hold(h))
	}
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: bench [OPTION]… [BACKEND | WORKLOAD | BACKEND/WORKLOAD]…\n       bench crowd [OPTION]… [BACKEND]…\n       bench cost [OPTION]… [BACKEND]…\n       bench table\n")
		flag.PrintDefaults()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "crowd" {
		exit(crowds(ctx, os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "cost" {
		exit(costs(ctx, os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "table" {
		exit(tables(os.Args[2:]))
	}
	flag.Parse()
	exit(bench(ctx))
}

func bench(ctx context.Context) error {
	if min(*repeat, *waiters, *clients, *leases) < 1 || min(*timed, *limit, *grace) <= 0 {
		return errors.New("-repeat, -waiters, -clients, -leases, -time, -limit and -grace have to be positive")
	}
	all := slices.Clone(onSQLite)
	var suites []*suite
	for _, b := range backends() {
		s, err := newSuite(b)
		if err != nil {
			return err
		}
		defer s.close()
		suites = append(suites, s)
		all = append(all, s.measurements()...)
	}
	for _, arg := range flag.Args() {
		if !slices.ContainsFunc(all, func(m measurement) bool { return m.chosen([]string{arg}) }) {
			return fmt.Errorf("unknown workload %q; -list lists them", arg)
		}
	}
	all = slices.DeleteFunc(all, func(m measurement) bool { return !m.chosen(flag.Args()) })
	if *list {
		listAll(all, suites)
		return nil
	}
	r := newReport(os.Stdout, *asJSON)
	r.machine()
	for _, m := range all {
		r.title(m.String(), m.what)
		if err := m.run(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	var wrong []string
	for _, s := range suites {
		wrong = append(wrong, s.wrong...)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("wrong results of our lock:\n%s", strings.Join(wrong, "\n"))
	}
	return nil
}

func backends() []workload.Backend {
	return []workload.Backend{redis.Backend(*atRedis), zookeeper.Backend(), postgres.Backend(*atPostgres, connections()), mariadb.Backend(*atMariaDB, connections()),
		etcd.Backend(), file.Backend()}
}

// hold is what a process does whose death is timed.
func hold(what string) error {
	var h workload.Holder
	if err := json.Unmarshal([]byte(what), &h); err != nil {
		return err
	}
	for _, b := range backends() {
		if b.Name == h.Backend {
			return h.Hold(context.Background(), b.Contenders(h.URL))
		}
	}
	return fmt.Errorf("no backend %q", h.Backend)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// connections are enough for all clients of W5, of which some have several.
func connections() int { return 100 + *waiters + 3*min(*waiters, *clients) }
