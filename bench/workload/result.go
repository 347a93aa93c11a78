package workload

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Result is what one contender did in one repetition of a workload.
type Result struct {
	Backend    string             `json:"backend"`
	Workload   string             `json:"workload"`
	Contender  string             `json:"contender"`
	Ours       bool               `json:"ours"`
	Repetition int                `json:"repetition"`
	Figures    map[string]float64 `json:"figures,omitempty"`

	// Wrong is what the lock must never do, and errors.
	Wrong []string `json:"wrong,omitempty"`
	// Stuck says who was still waiting when the limit was reached.
	Stuck string `json:"stuck,omitempty"`
	// Failed is why there are no figures.
	Failed string `json:"failed,omitempty"`
}

// Bad reports whether the contender did something wrong.
func (r *Result) Bad() bool { return len(r.Wrong) > 0 || !r.Finished() }

// Finished reports whether the contender came to an end, with all that it was to do.
func (r *Result) Finished() bool { return r.Stuck == "" && r.Failed == "" }

func (r *Result) set(figure string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return // there was nothing to divide by
	}
	if r.Figures == nil {
		r.Figures = map[string]float64{}
	}
	r.Figures[figure] = value
}

// enough are the first ones of many mistakes.
const enough = 5

func (r *Result) wrong(format string, args ...any) {
	if len(r.Wrong) < enough {
		r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
	}
}

// Median merges the repetitions of one contender: each figure is the median of
// its own, each mistake counts.
func Median(results []Result) Result {
	m := results[0]
	m.Repetition, m.Figures, m.Wrong, m.Stuck, m.Failed = 0, nil, nil, "", ""
	values := map[string][]float64{}
	for _, r := range results {
		for figure, value := range r.Figures {
			values[figure] = append(values[figure], value)
		}
		for _, w := range r.Wrong {
			m.wrong("%s", w)
		}
		m.Stuck, m.Failed = cmp.Or(r.Stuck, m.Stuck), cmp.Or(r.Failed, m.Failed)
	}
	for figure, v := range values {
		slices.Sort(v)
		m.set(figure, v[len(v)/2])
	}
	return m
}
