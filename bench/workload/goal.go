package workload

import "slices"

// Verdict is how near a goal is.
type Verdict struct {
	Goal
	Peer    string  // of Goal.Of, the one that counted
	Value   float64 // the ratio, or the figure itself
	AtBest  bool    // the peer did not get through: the ratio is larger than that
	Known   bool
	Reached bool
}

// Judge compares the medians of one workload with its goals.
func Judge(w Workload, goals []Goal, medians []Result) []Verdict {
	var all []Verdict
	for _, g := range goals {
		if g.Workload == w.Name {
			all = append(all, judgeGoal(w, g, medians))
		}
	}
	return all
}

func judgeGoal(w Workload, g Goal, medians []Result) Verdict {
	v := Verdict{Goal: g}
	ours, ok := find(medians, g.Who)
	value, has := ours.Figures[g.Figure]
	if !ok || !has || ours.Bad() {
		return v
	}
	v.Value, v.Known = value, true
	if len(g.Of) > 0 {
		less := w.less(g.Figure)
		peer, ok := best(medians, g.Figure, less, g.Of)
		if !ok {
			v.Known = false
			return v
		}
		v.Peer, v.AtBest = peer.Contender, peer.Stuck != ""
		v.Value = Ratio(value, peer.Figures[g.Figure], less)
	}
	v.Reached = (g.AtLeast == 0 || v.Value >= g.AtLeast) && (g.AtMost == 0 || v.Value <= g.AtMost)
	return v
}

// Ratio says how many times better a is than b.
func Ratio(a, b float64, less bool) float64 {
	if less {
		return b / a
	}
	return a / b
}

func (w Workload) less(figure string) bool {
	return slices.ContainsFunc(w.Columns, func(c Column) bool { return c.Figure == figure && c.Less })
}

// Beside returns the contender that the others are compared with.
func Beside(w Workload, medians []Result, who string) (Result, bool) {
	return best(medians, w.Columns[0].Figure, w.Columns[0].Less, []string{who})
}

func best(medians []Result, figure string, less bool, names []string) (one Result, ok bool) {
	for _, m := range medians {
		named := slices.Contains(names, m.Contender) || slices.Contains(names, BestPeer) && !m.Ours
		if _, has := m.Figures[figure]; !named || !has {
			continue
		}
		if !ok || Ratio(m.Figures[figure], one.Figures[figure], less) > 1 {
			one, ok = m, true
		}
	}
	return one, ok
}

func find(medians []Result, name string) (Result, bool) {
	i := slices.IndexFunc(medians, func(r Result) bool { return r.Contender == name })
	if i < 0 {
		return Result{}, false
	}
	return medians[i], true
}
