// Package check judges histories. No verdict knows of a backend: what a backend does not promise is said by the fault
// that brings it about ([history.Event].Loses), and counted beside what is promised.
package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lab/history"
)

// Options are what a run promised.
type Options struct {
	TTL      time.Duration
	Patience time.Duration // a waiter is left behind if nothing disturbs it, and it waits for longer
	Decide   time.Duration // how long the search for an order of one object may take; 0: 10 s
}

// A Violation is a promise that was not kept.
type Violation struct {
	Promise string `json:"promise"`
	Object  string `json:"object"`
	T       int64  `json:"t"`
	Text    string `json:"text"`
}

// A Verdict is about one promise.
type Verdict struct {
	Promise    string `json:"promise"`
	Checked    int    `json:"checked"`
	Violated   int    `json:"violated"`
	Documented int    `json:"documented"` // happened as the documents say that it may
	Undecided  int    `json:"undecided"`  // the search for an order took too long
}

// Spread is the middle and the end of what was measured.
type Spread struct {
	N      int           `json:"n"`
	Median time.Duration `json:"median"`
	Most   time.Duration `json:"most"`
	Least  time.Duration `json:"least"`
	all    []time.Duration
}

func (s *Spread) add(d time.Duration) { s.all = append(s.all, d.Round(10*time.Microsecond)) }

func (s *Spread) sum() {
	if s.N = len(s.all); s.N > 0 {
		slices.Sort(s.all)
		s.Least, s.Median, s.Most = s.all[0], s.all[s.N/2], s.all[s.N-1]
	}
}

// Result is all that was found.
type Result struct {
	Operations int `json:"operations"` // of workers
	Succeeded  int `json:"succeeded"`
	Unknown    int `json:"unknown"`
	Grants     int `json:"grants"`
	Losses     int `json:"losses"` // leases that were lost, and said to be

	Faults map[string]int `json:"faults"`

	// Recovery, by the kind of the fault: from its end to the next grant of each lock that all want, of those the last.
	Recovery map[string]*Spread `json:"recovery"`

	LossSignal Spread `json:"loss_signal"`
	Updates    int    `json:"updates"`      // of unfenced counters
	Overwrites int    `json:"lost_updates"` // so many of the updates were lost
	Refused    int    `json:"refused"`      // writes that the resource refused, for their tokens were old

	Verdicts   []*Verdict  `json:"verdicts"`
	Violations []Violation `json:"violations"`
}

// Disturbances is how many faults there were.
func (r *Result) Disturbances() (n int) {
	for _, k := range r.Faults {
		n += k
	}
	return n
}

// Promises of a result, as reports name them.
const (
	Exclusion = "no two hold at once"
	Order     = "one order explains all"
	Tokens    = "tokens grow"
	Fenced    = "fenced writes are in order"
	Fair      = "first come, first served"
	Healthy   = "undisturbed leases stay"
	Signal    = "the loss is told in time"
	Waiters   = "no waiter is left behind"
	Leftovers = "nothing is left over"
	Once      = "work takes effect once"
	Gathering = "latches and barriers gather all"
	Errors    = "errors say what happened"
)

var promises = []string{Exclusion, Order, Tokens, Fenced, Fair, Healthy, Signal, Waiters, Leftovers, Once, Gathering, Errors}

// A span is a time in which a lease certainly held.
type span struct {
	from, to int64
	units    int64
	grant    *grant
}

// A grant is an operation that has acquired.
type grant struct {
	history.Key
	object      string
	capacity    int64
	token       uint64
	id          string
	invoked, ok int64
	spans       []span
	ended, lost int64 // 0: never
	given       int64 // when the release began; 0: never
	evicted     bool
	clean       bool // the release is confirmed
	changes     []change
}

type change struct {
	units      int64 // that are given back
	began, end int64
}

func (g *grant) last() int64 { return g.spans[len(g.spans)-1].to }

func (g *grant) exclusive() bool { return g.spans[0].units == g.capacity }

// A disturbance is a fault, or a time in which a worker stood still.
type disturbance struct {
	from, to int64
	worker   string // "": it concerns all
	objects  string // the beginning of their names; "": all
	loses    bool
	mixes    bool
	stall    time.Duration // 0: it is a fault
	kind     string
}

type judge struct {
	Options
	*Result
	verdicts map[string]*Verdict
	events   []history.Event
	grants   map[string][]*grant // of an object, in the order in which they succeeded
	faults   []*disturbance
	killed   map[int]bool
	resized  map[string]bool // numbers of permits that change
	end      int64
}

// Check judges a history, which is sorted and not empty.
func Check(events []history.Event, o Options) *Result {
	j := &judge{
		Options: o, Result: &Result{Faults: map[string]int{}, Recovery: map[string]*Spread{}},
		verdicts: map[string]*Verdict{}, events: events, grants: map[string][]*grant{}, killed: map[int]bool{},
		resized: map[string]bool{},
	}
	j.Decide = cmp.Or(j.Decide, 10*time.Second)
	for _, p := range promises {
		v := &Verdict{Promise: p}
		j.verdicts[p], j.Verdicts = v, append(j.Verdicts, v)
	}
	j.end = events[len(events)-1].T
	j.disturbances()
	j.assemble()
	j.exclusion()
	j.tokens()
	j.orders()
	j.resource()
	j.fair()
	j.losses()
	j.waiters()
	j.recovery()
	j.gatherings()
	j.once()
	j.LossSignal.sum()
	for _, s := range j.Recovery {
		s.sum()
	}
	return j.Result
}

func (j *judge) wrong(promise, object string, t int64, format string, args ...any) {
	j.verdicts[promise].Violated++
	j.Violations = append(j.Violations, Violation{promise, object, t, fmt.Sprintf(format, args...)})
}

// disturbances collects the faults and the times in which workers stood still.
func (j *judge) disturbances() {
	open := map[int]*disturbance{}
	for i := range j.events {
		e := &j.events[i]
		switch e.Kind {
		case history.Fault:
			j.Faults[e.Op]++
			d := &disturbance{from: e.T, to: j.end, worker: e.Object, loses: e.Loses, mixes: e.Mixes, kind: e.Op}
			open[e.N], j.faults = d, append(j.faults, d)
		case history.Killed:
			j.killed[e.Worker] = true
		case history.Heal:
			if d := open[e.N]; d != nil {
				d.to = e.T
			}
		case history.Stall:
			d := &disturbance{from: e.T - e.D, to: e.T, objects: e.Object, stall: time.Duration(e.D)}
			if e.Worker != 0 { // the backend, which concerns all
				d.worker = fmt.Sprint(e.Worker)
			}
			j.faults = append(j.faults, d)
		}
	}
}

// concerns says whether it disturbs a worker.
func (d *disturbance) concerns(worker int) bool {
	return d.worker == "" || d.worker == fmt.Sprint(worker)
}

// disturbance says whether there was one of a kind between two times.
func (j *judge) disturbance(from, to int64, kind func(d *disturbance) bool) bool {
	return slices.ContainsFunc(j.faults, func(d *disturbance) bool { return d.from <= to && d.to >= from && kind(d) })
}

// loses says whether a fault between two times may have lost grants, as documented.
func (j *judge) loses(from, to int64) bool {
	return j.disturbance(from, to, func(d *disturbance) bool { return d.loses })
}

// assemble makes grants of the events.
func (j *judge) assemble() {
	open, names := map[history.Key]*grant{}, map[string]bool{}
	for i := range j.events {
		e := &j.events[i]
		g := cmp.Or(open[e.Key()], &grant{}) // one that is not known holds nothing
		switch e.Kind {
		case history.Invoke:
			j.Operations++
			names[e.Object] = true
			if e.Op == "acquire" {
				open[e.Key()] = &grant{Key: e.Key(), object: e.Object, capacity: e.Cap, invoked: e.T}
			}
			j.resized[e.Object] = j.resized[e.Object] || e.Op == "permits"
		case history.OK:
			if j.Succeeded++; e.Op != "acquire" {
				continue
			}
			g.ok, g.token, g.id = e.T, e.Token, e.ID
			g.spans = []span{{from: e.T, to: e.T, units: e.Units, grant: g}}
			j.grants[g.object] = append(j.grants[g.object], g)
			j.Grants++
		case history.Unknown:
			j.Unknown++
		case history.Held:
			g.held(e.T)
		case history.Change:
			if g.ok == 0 {
				continue
			}
			before, began := g.spans[len(g.spans)-1].units, e.T
			if !e.Alive {
				began = g.last() // it had ended by then
			}
			g.changes = append(g.changes, change{before - e.Units, began, maxTime})
			if e.Alive {
				g.held(e.T)
				g.spans = append(g.spans, span{e.T, e.T, e.Units, g})
			}
		case history.Changed:
			if n := len(g.changes); n > 0 && e.Err == "" {
				g.changes[n-1].end = e.T
			}
		case history.Lost:
			if g.ok != 0 {
				g.lost, g.evicted = e.T, strings.Contains(e.Err, "evicted")
				j.Losses++
			}
		case history.Release:
			j.Operations++
			if g.given = e.T; e.Alive {
				g.held(e.T)
			}
		case history.Ended:
			if g.ended, g.clean = e.T, e.Err == ""; g.clean {
				j.Succeeded++
			}
		case history.Left:
			j.wrong(Leftovers, e.Object, e.T, "%s", e.Value)
		case history.Unexpected:
			j.wrong(Errors, e.Object, e.T, "worker %d/%d#%d is told: %s", e.Worker, e.G, e.N, e.Err)
		}
	}
	j.verdicts[Leftovers].Checked, j.verdicts[Errors].Checked = len(names), j.Operations
}

func (g *grant) held(t int64) {
	if n := len(g.spans); n > 0 {
		g.spans[n-1].to = max(g.spans[n-1].to, t)
	}
}

func (j *judge) objects() []string { return slices.Sorted(maps.Keys(j.grants)) }

// exclusion looks for times in which more was certainly held than the capacity.
func (j *judge) exclusion() {
	v := j.verdicts[Exclusion]
	for _, name := range j.objects() {
		all := j.grants[name]
		v.Checked += len(all)
		if j.resized[name] {
			continue // the order of all has to explain it
		}
		var spans []span
		for _, g := range all {
			spans = append(spans, g.spans...)
		}
		slices.SortFunc(spans, func(a, b span) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
		})
		var inside []span
		for _, s := range spans {
			inside = slices.DeleteFunc(inside, func(o span) bool { return o.to <= s.from })
			used := s.units
			for _, o := range inside {
				used += o.units
			}
			inside = append(inside, s)
			if used <= s.grant.capacity || len(inside) == 1 {
				continue
			}
			o := inside[0]
			if j.loses(o.from, s.from) {
				v.Documented++
				continue
			}
			j.wrong(Exclusion, name, s.from,
				"%d of %d units are held: by %s since %s and up to %s at least, and by %s from %s on",
				used, s.grant.capacity, o.grant, j.at(o.from), j.at(o.to), s.grant, j.at(s.from))
		}
	}
}

func (g *grant) String() string {
	return fmt.Sprintf("worker %d/%d#%d (token %d)", g.Worker, g.G, g.N, g.token)
}

// at is a time since the beginning of the run.
func (j *judge) at(t int64) string {
	return time.Duration(t - j.events[0].T).Round(10 * time.Microsecond).String()
}

// tokens looks at the exclusive grants of each object, in the order in which they certainly held.
func (j *judge) tokens() {
	v := j.verdicts[Tokens]
	for _, name := range j.objects() {
		var last *grant
		for _, g := range j.grants[name] {
			if !g.exclusive() || g.token == 0 {
				continue
			}
			v.Checked++
			if last != nil && g.token <= last.token && g.invoked < last.ok && j.loses(last.ok, g.ok) {
				v.Documented++ // two servers granted at once
			} else if last != nil && g.token <= last.token {
				j.wrong(Tokens, name, g.ok, "%s is granted at %s, after %s", g, j.at(g.ok), last)
			} else {
				last = g
			}
		}
	}
}

// resource looks at what the resource has taken.
func (j *judge) resource() {
	type state struct {
		value string
		token uint64
	}
	now := map[string]state{}
	v := j.verdicts[Fenced]
	for i := range j.events {
		e := &j.events[i]
		switch e.Kind {
		case history.Refuse:
			j.Refused++
		case history.Accept:
			s := now[e.Object]
			base := fmt.Sprint(e.Ver)
			lost := s.value != "" && base != s.value
			if e.Token == 0 {
				if j.Updates++; lost {
					j.Overwrites++
				}
			} else {
				v.Checked++
				if e.Token < s.token {
					j.wrong(Fenced, e.Object, e.T, "the token %d is taken after %d", e.Token, s.token)
				} else if lost {
					j.wrong(Fenced, e.Object, e.T,
						"the update %s of worker %d/%d#%d with token %d is made of %s, and there was %s, of token %d",
						e.Value, e.Worker, e.G, e.N, e.Token, base, s.value, s.token)
				}
			}
			now[e.Object] = state{e.Value, e.Token}
		}
	}
}

// fair looks whether grants came in the orders that observers have seen in the queues.
func (j *judge) fair() {
	v := j.verdicts[Fair]
	granted := map[string]*grant{}
	for _, all := range j.grants {
		for _, g := range all {
			ticket, _, _ := strings.Cut(g.id, ".")
			granted[ticket] = g
		}
	}
	told := map[[2]string]bool{}
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.Seen {
			continue
		}
		var before *grant
		for _, id := range e.IDs {
			g := granted[id]
			if g == nil || g.given != 0 && g.given <= e.T {
				continue // it gave up, was killed, or was leaving: members of a quorum forget it one after the other
			}
			v.Checked++
			if before != nil && g.token < before.token {
				// docs/quorum.md promises the order from three seconds after a fault on: a tenth of the patience,
				// which is longer on a machine with much other work.
				from, pair := min(before.invoked, g.invoked)-int64(j.Patience/10), [2]string{before.id, g.id}
				if j.disturbance(from, max(before.ok, g.ok), func(d *disturbance) bool { return d.mixes }) {
					v.Documented++
				} else if !told[pair] {
					told[pair] = true
					j.wrong(Fair, e.Object, e.T, "%s stood in front of %s, and was granted the lock later", before, g)
				}
			}
			before = g
		}
	}
}

// losses looks at leases whose holders were told that they are lost.
func (j *judge) losses() {
	healthy, signal := j.verdicts[Healthy], j.verdicts[Signal]
	healthy.Checked = j.Grants
	for _, name := range j.objects() {
		all := j.grants[name]
		for i, g := range all {
			if g.lost == 0 {
				continue
			}
			disturbed := j.disturbance(g.lost-int64(j.TTL)-int64(j.margin()), g.lost, func(d *disturbance) bool {
				return d.concerns(g.Worker) && strings.HasPrefix(name, d.objects) && (d.stall == 0 || d.stall >= j.TTL/5)
			})
			if !g.evicted && !disturbed {
				j.wrong(Healthy, name, g.lost, "%s is lost at %s, and nothing has disturbed it", g, j.at(g.lost))
			}
			if !g.exclusive() || len(g.changes) > 0 || i+1 == len(all) {
				continue
			}
			next := all[i+1]
			signal.Checked++
			gap := time.Duration(next.ok - g.lost)
			if gap >= 0 { // in simulated time the holder's own release can let the next one in at the same instant
				j.LossSignal.add(gap)
				continue
			}
			stopped := j.disturbance(g.ok, g.lost, func(d *disturbance) bool {
				return d.worker == fmt.Sprint(g.Worker) && (d.stall > 0 && d.stall >= j.margin()/4 || d.kind == "stop")
			})
			switch {
			case j.loses(g.ok, next.ok):
				signal.Documented++
			case !stopped: // a process that stands still hears of nothing
				j.wrong(Signal, name, g.lost, "%s is told of its loss %v after %s was granted the lock", g, -gap, next)
			}
		}
	}
}

func (j *judge) margin() time.Duration { return min(j.TTL/10, time.Second) }

// waiters looks for calls that did not return, and for slow ones.
func (j *judge) waiters() {
	v := j.verdicts[Waiters]
	open := map[history.Key]*history.Event{}
	for i := range j.events {
		e := &j.events[i]
		if e.Worker == 0 {
			continue
		}
		switch e.Kind {
		case history.Invoke:
			v.Checked++
			open[e.Key()] = e
		case history.Release:
			open[e.Key()] = e
		case history.OK, history.Failed, history.Unknown, history.Ended:
			c := open[e.Key()]
			if c == nil {
				continue
			}
			delete(open, e.Key())
			if quiet := j.quiet(e.Worker, c.T, e.T); quiet > int64(j.Patience) {
				j.wrong(Waiters, c.Object, e.T, "%s of worker %d/%d#%d took %v, %v of them undisturbed",
					cmp.Or(c.Op, c.Kind), e.Worker, e.G, e.N, time.Duration(e.T-c.T), time.Duration(quiet))
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(open), func(a, b history.Key) int {
		return cmp.Or(a.Worker-b.Worker, a.G-b.G, a.N-b.N)
	}) {
		if !j.killed[key.Worker] {
			c := open[key]
			j.wrong(Waiters, c.Object, c.T, "%s of worker %d/%d#%d, begun at %s, has not returned",
				cmp.Or(c.Op, c.Kind), key.Worker, key.G, key.N, j.at(c.T))
		}
	}
}

// quiet is the longest time between two times in which nothing disturbed a worker.
func (j *judge) quiet(worker int, from, to int64) (longest int64) {
	if to-from <= int64(j.Patience) {
		return 0
	}
	at := from
	for _, d := range j.faults { // in the order of their beginnings
		if d.stall > 0 || d.to < at || d.from > to || !d.concerns(worker) {
			continue
		}
		longest = max(longest, d.from-at)
		at = max(at, d.to)
	}
	return max(longest, to-at)
}

// recovery is the time from the end of each fault to the next grant of the locks that all want, of those the last.
func (j *judge) recovery() {
	for _, f := range j.faults {
		if f.stall > 0 {
			continue
		}
		from, most := f.to, int64(-1)
		if f.kind == "kill" {
			from = f.from
		}
		for name, all := range j.grants {
			if !strings.HasSuffix(name, "/all") {
				continue
			}
			i, _ := slices.BinarySearchFunc(all, from, func(g *grant, t int64) int { return cmp.Compare(g.ok, t) })
			if i < len(all) {
				most = max(most, all[i].ok-from)
			}
		}
		if most < 0 {
			continue
		}
		if j.Recovery[f.kind] == nil {
			j.Recovery[f.kind] = &Spread{}
		}
		j.Recovery[f.kind].add(time.Duration(most))
	}
}

// gatherings looks whether latches and barriers have let through too early. The events of their calls have the number
// that has to come together in Cap.
func (j *judge) gatherings() {
	v := j.verdicts[Gathering]
	type member struct{ entered, left int64 } // the last time that it began to; left is 0 while it has not
	counted := map[string]int64{}             // countdowns that were begun
	barriers := map[string]map[[3]int]*member{}
	for i := range j.events {
		e := &j.events[i]
		all := barriers[e.Object]
		if all == nil {
			all = map[[3]int]*member{}
			barriers[e.Object] = all
		}
		key := [3]int{e.Worker, e.G}
		switch e.Op + " " + e.Kind {
		case "countdown invoke":
			counted[e.Object]++
		case "latch ok":
			if v.Checked++; counted[e.Object] < e.Cap {
				j.wrong(Gathering, e.Object, e.T, "the latch of %d lets worker %d/%d pass after %d", e.Cap, e.Worker,
					e.G, counted[e.Object])
			}
		case "enter invoke":
			if m := all[key]; m != nil && m.left > e.T { // its last place may stand beside the new one
				all[[3]int{e.Worker, e.G, i}] = m
			}
			all[key] = &member{entered: e.T}
		case "enter fail", "leave invoke":
			all[key].left = e.T
		case "enter unknown": // its place may stand for a TTL, and if a server dies for another
			all[key].left = e.T + 3*int64(j.TTL)
		case "enter ok":
			met := int64(0)
			for _, m := range all {
				if m.left == 0 || m.left >= all[key].entered {
					met++
				}
			}
			if v.Checked++; met < e.Cap {
				j.wrong(Gathering, e.Object, e.T, "the barrier of %d lets worker %d/%d in with %d", e.Cap, e.Worker,
					e.G, met)
			}
		}
	}
}

// once looks whether the work of a key has taken effect more than once, or has had two results.
func (j *judge) once() {
	v := j.verdicts[Once]
	results := map[string]string{}
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Op == "once" && e.Kind == history.OK:
			v.Checked++
			if r, ok := results[e.Object]; ok && r != e.Value {
				j.wrong(Once, e.Object, e.T, "the results are %s and %s", r, e.Value)
			}
			results[e.Object] = e.Value
		case e.Op == "effects" && e.Value != "1":
			j.wrong(Once, e.Object, e.T, "the work has taken effect %s times", e.Value)
		}
	}
}
