package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// report prints lines of a Markdown table as they are measured.
type report struct{ w io.Writer }

func newReport(w io.Writer) *report { return &report{w} }

func (r *report) header(cells ...string) {
	r.line(cells...)
	rule := make([]string, len(cells))
	for i := range rule {
		rule[i] = "---"
	}
	r.line(rule...)
}

func (r *report) line(cells ...string) {
	for _, c := range cells {
		fmt.Fprintf(r.w, "| %s ", c)
	}
	fmt.Fprintln(r.w, "|")
}

// contender does n units of work and returns how long that took.
type contender struct {
	name string
	run  func(n int) (time.Duration, error)
	n    int
}

// compare runs the contenders in turn, several times, and returns the median
// time of one unit of each.
func compare(contenders []contender) ([]time.Duration, error) {
	times := make([][]time.Duration, len(contenders))
	for range *repeat {
		for i, c := range contenders {
			took, err := c.run(c.n)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			times[i] = append(times[i], took/time.Duration(c.n))
		}
	}
	medians := make([]time.Duration, len(contenders))
	for i, t := range times {
		medians[i] = median(t)
	}
	return medians, nil
}

func median(t []time.Duration) time.Duration {
	slices.Sort(t)
	return t[len(t)/2]
}

func perSecond(d time.Duration) string { return fmt.Sprintf("%.0f", float64(time.Second)/float64(d)) }

func ratio(a, b time.Duration) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) }
