package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/lab/history"
	"github.com/interlock-go/interlock/lab/run"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// bar is from, to, both in microseconds, and what a reader is told.
type bar [3]any

type row struct {
	Name  string `json:"name"`
	Holds []bar  `json:"holds"`
	Waits []bar  `json:"waits"`
}

type timeline struct {
	Began  int64   `json:"began"` // nanoseconds
	End    int64   `json:"end"`
	Rows   []*row  `json:"rows"`
	Faults []bar   `json:"faults"`
	Bad    []int64 `json:"bad"`
}

// most is how many bars a row has.
const most = 6000

// Page writes a page of HTML that needs no other file.
func Page(path string, r *run.Report) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return page.Execute(f, struct {
		*run.Report
		Timeline timeline
	}{r, draw(r)})
}

// draw makes bars of the locks that all want, and of those with a violation.
func draw(r *run.Report) timeline {
	t, events := timeline{Faults: []bar{}, Bad: []int64{}}, r.Events
	t.Began = events[0].T
	at := func(ns int64) int64 { return (ns - t.Began) / 1000 }
	t.End = at(events[len(events)-1].T)
	wanted := map[string]bool{}
	for _, v := range r.Violations {
		wanted[v.Object] = true
		t.Bad = append(t.Bad, at(v.T))
	}
	rows := map[string]*row{}
	asked, held := map[history.Key]int64{}, map[history.Key]int64{}
	open := map[int]bar{}
	add := func(all *[]bar, from int64, e *history.Event, what string) {
		if len(*all) < most {
			*all = append(*all, bar{from, at(e.T), fmt.Sprintf("worker %d/%d#%d %s", e.Worker, e.G, e.N, what)})
		}
	}
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case history.Fault:
			open[e.N] = bar{at(e.T), 0, strings.TrimSpace(e.Op + " " + e.ID)}
		case history.Heal:
			t.Faults = append(t.Faults, bar{open[e.N][0], at(e.T), open[e.N][2]})
		}
		if !strings.HasSuffix(e.Object, "/all") && !wanted[e.Object] {
			continue
		}
		lane := rows[e.Object]
		if lane == nil {
			lane = &row{Name: e.Object, Holds: []bar{}, Waits: []bar{}}
			rows[e.Object] = lane
		}
		switch {
		case e.Kind == history.Invoke && e.Op == "acquire":
			asked[e.Key()] = at(e.T)
		case e.Kind == history.OK && e.Op == "acquire":
			held[e.Key()] = at(e.T)
			add(&lane.Waits, asked[e.Key()], e, "waits")
		case e.Kind == history.Failed && e.Op == "acquire":
			add(&lane.Waits, asked[e.Key()], e, "gives up")
		case e.Kind == history.Release || e.Kind == history.Lost:
			if from, ok := held[e.Key()]; ok {
				delete(held, e.Key())
				add(&lane.Holds, from, e, "holds")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if lane := rows[name]; len(lane.Holds)+len(lane.Waits) > 0 {
			t.Rows = append(t.Rows, lane)
		}
	}
	return t
}
