package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/bench/workload"
)

// suite runs the workloads on one backend.
type suite struct {
	workload.Backend
	server workload.Server // once it is needed
	only   *regexp.Regexp
	wrong  []string // what ours did that no lock may do
}

// slicesOfTime are what a repetition of a timed workload is cut into. Contenders
// alternate in all of them, so that a second in which the machine was busy with
// something else hits them alike, and the median is none of those.
const slicesOfTime = 3

func newSuite(b workload.Backend) (*suite, error) {
	re, err := regexp.Compile(*only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	return &suite{Backend: b, only: re}, nil
}

func (s *suite) close() {
	if s.server != nil {
		_ = s.server.Close()
	}
}

func (s *suite) measurements() []measurement {
	var all []measurement
	for _, w := range workload.All() {
		all = append(all, measurement{s.Name, w.Name, w.What, func(ctx context.Context, r *report) error { return s.run(ctx, w, r) }})
	}
	return all
}

// contenders are those who take part in the workload.
func (s *suite) contenders(w workload.Workload, url string) []workload.Contender {
	return slices.DeleteFunc(s.Contenders(url), func(c workload.Contender) bool {
		return !slices.Contains(c.Takes, w.Name) || !s.only.MatchString(c.Name)
	})
}

func (s *suite) run(ctx context.Context, w workload.Workload, r *report) error {
	if s.server == nil {
		server, err := s.Start(ctx)
		if err != nil {
			return err
		}
		s.server = server
		for _, line := range server.About() {
			fmt.Fprintln(r.comments(), line)
		}
	}
	e := workload.Env{
		Backend: s.Name, Server: s.server, Time: *timed, Limit: *limit, Grace: *grace,
		Waiters: *waiters, Clients: *clients, Leases: *leases, Settle: s.Settle,
	}
	rounds := *repeat
	if w.Timed {
		rounds *= slicesOfTime
		e.Time /= slicesOfTime
	}
	contenders := s.contenders(w, s.server.URL())
	results := make([][]workload.Result, len(contenders))
	for n := range rounds {
		for i, c := range contenders {
			if slices.ContainsFunc(results[i], func(r workload.Result) bool { return !r.Finished() }) {
				continue
			}
			e := e
			if w.Timed && c.Least > e.Time {
				if e.Time = c.Least; n%slicesOfTime > 0 {
					continue
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.server.Clear(ctx); err != nil {
				return err
			}
			progress("%s/%s: %s, %d of %d", s.Name, w.Name, c.Name, n+1, rounds)
			one := w.Run(ctx, c, e)
			one.Workload, one.Repetition = w.Name, n+1
			r.raw(one)
			results[i] = append(results[i], one)
		}
	}
	progress("")
	var medians []workload.Result
	for i, c := range contenders {
		m := workload.Median(results[i])
		medians = append(medians, m)
		if c.Ours && m.Bad() {
			s.wrong = append(s.wrong, fmt.Sprintf("%s/%s, %s: %s", s.Name, w.Name, c.Name, mistakes(m)))
		}
	}
	r.results(w, contenders, medians, s.Beside[w.Name])
	r.goals(workload.Judge(w, s.Goals, medians))
	return nil
}

func mistakes(m workload.Result) string {
	all := slices.Clone(m.Wrong)
	if m.Stuck != "" {
		all = append(all, "left waiting: "+m.Stuck)
	}
	if m.Hung != "" {
		all = append(all, "hung: "+m.Hung)
	}
	if m.Failed != "" {
		all = append(all, m.Failed)
	}
	return strings.Join(all, "; ")
}

// progress shows on a terminal what is under way.
func progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
	}
}

func listAll(all []measurement, suites []*suite) {
	for _, m := range all {
		fmt.Printf("%s: %s\n", m, m.what)
		for _, s := range suites {
			if s.Name != m.backend {
				continue
			}
			for _, c := range s.Contenders("") {
				if slices.Contains(c.Takes, m.name) && s.only.MatchString(c.Name) {
					fmt.Printf("    %s: %s\n", c.Name, c.Settings)
				}
			}
		}
	}
}
