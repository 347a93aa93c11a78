package workload

import (
	"testing"
	"time"
)

func TestTwoInTheArenaAreSeen(t *testing.T) {
	var a arena
	now := time.Now()
	one, _, _, err := a.enter(1, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := a.enter(2, nil, now); err == nil {
		t.Error("the second was let in")
	}
	if err := one.leave(now); err == nil {
		t.Error("the first did not notice")
	}
}

func TestGapIsFromTheReleaseOfAnother(t *testing.T) {
	var a arena
	now := time.Now()
	for i, step := range []struct {
		worker int
		handed bool
	}{{1, false}, {1, false}, {2, true}, {1, true}} {
		v, gap, handed, err := a.enter(step.worker, nil, now.Add(time.Millisecond))
		if err != nil || handed != step.handed || handed && gap != time.Millisecond {
			t.Errorf("%d: %v, %v, %v", i, gap, handed, err)
		}
		if err := v.leave(now); err != nil {
			t.Error(err)
		}
	}
}

func TestJain(t *testing.T) {
	for _, test := range []struct {
		each []int64
		want float64
	}{{[]int64{5, 5, 5, 5}, 1}, {[]int64{8, 0, 0, 0}, 0.25}} {
		if got := jain(test.each); got != test.want {
			t.Errorf("jain(%v) = %v", test.each, got)
		}
	}
}

func TestJudge(t *testing.T) {
	w := Workload{Name: "W", Columns: []Column{{Figure: "rate"}, {Figure: "time", Less: true}}}
	medians := []Result{
		{Contender: "ours", Ours: true, Figures: map[string]float64{"rate": 300, "time": 2}},
		{Contender: "a", Figures: map[string]float64{"rate": 100, "time": 8}},
		{Contender: "b", Figures: map[string]float64{"rate": 150, "time": 16}, Stuck: "1 of 2"},
	}
	for _, test := range []struct {
		g       Goal
		value   float64
		peer    string
		reached bool
	}{
		{Goal{Figure: "rate", Of: []string{BestPeer}, AtLeast: 2}, 2, "b", true},
		{Goal{Figure: "rate", Of: []string{"a"}, AtLeast: 3.5}, 3, "a", false},
		{Goal{Figure: "time", Of: []string{"a", "b"}, AtLeast: 4}, 4, "a", true},
		{Goal{Figure: "time", Of: []string{"b"}, AtLeast: 8}, 8, "b", true},
		{Goal{Figure: "time", AtMost: 1.5}, 2, "", false},
	} {
		test.g.Workload, test.g.Who = "W", "ours"
		v := Judge(w, []Goal{test.g}, medians)[0]
		if !v.Known || v.Value != test.value || v.Peer != test.peer || v.Reached != test.reached || v.AtBest != (v.Peer == "b") {
			t.Errorf("%+v: %+v", test.g, v)
		}
	}
	if v := Judge(w, []Goal{{Workload: "W", Who: "nobody", Figure: "rate"}}, medians)[0]; v.Known || v.Reached {
		t.Errorf("%+v", v)
	}
}
