package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/interlock-go/interlock/lab/history"
)

const maxTime = math.MaxInt64

// most is how many steps the history of an object may have: the search keeps a set of them for each step that it tries.
const most = 6000

// A step is a change of a lock or a value.
type step struct {
	what      string
	units     int64 // acquire: those it has; release: those it gives back; permits: the new number
	token     uint64
	exclusive bool
	base      uint64 // set, delete: the version to replace
	value     string
	unknown   bool // whether it took effect
	conflict  bool
}

// lockState is the state of a lock.
type lockState struct {
	used, capacity int64
	token          uint64 // of the last exclusive grant
}

// lockModel is a mutex, a read-write lock, a semaphore: units are held that fit the capacity, and exclusive grants have
// tokens that grow.
func lockModel(capacity int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return lockState{capacity: capacity} },
		Step: func(state, input, _ any) (bool, any) {
			s, in := state.(lockState), input.(step)
			switch in.what {
			case "acquire":
				s.used += in.units
				if in.exclusive {
					if in.token <= s.token {
						return false, s
					}
					s.token = in.token
				}
				return s.used <= s.capacity, s
			case "permits":
				s.capacity = in.units
			case "release":
				s.used -= in.units
			}
			return true, s
		},
	}
}

// valueState is the state of a value. After a change whose answer is missing its version is not known.
type valueState struct {
	version uint64
	known   bool
	value   string
}

var valueModel = porcupine.Model{
	Init: func() any { return valueState{known: true} },
	Step: func(state, input, output any) (bool, any) {
		s, in := state.(valueState), input.(step)
		version, _ := output.(uint64)
		switch {
		case in.what == "get":
			if !s.known && version > s.version {
				s.version, s.known = version, true
			}
			return s.known && version == s.version && in.value == s.value, s
		case in.conflict:
			return !s.known || in.base != s.version, s
		case in.unknown:
			if s.known && in.base == s.version {
				s.known, s.value = false, in.value
			}
			return true, s
		}
		return s.known && in.base == s.version && version > s.version, valueState{version, true, in.value}
	},
}

// orders looks for an order that explains the history of each object.
func (j *judge) orders() {
	histories, models := map[string][]porcupine.Operation{}, map[string]porcupine.Model{}
	add := func(object string, worker int, s step, output any, from, to int64) {
		histories[object] = append(histories[object], porcupine.Operation{
			ClientId: worker, Input: s, Call: from, Output: output, Return: to,
		})
	}
	for name, all := range j.grants {
		models[name] = lockModel(all[0].capacity)
		for _, g := range all {
			units := g.spans[0].units
			add(name, g.Worker, step{
				what: "acquire", units: units, token: g.token, exclusive: g.exclusive() && g.token > 0,
			}, nil, g.invoked, g.ok)
			for _, c := range g.changes {
				add(name, g.Worker, step{what: "release", units: c.units}, nil, c.began, c.end)
				units -= c.units
			}
			end := int64(maxTime)
			if g.clean {
				end = g.ended
			}
			add(name, g.Worker, step{what: "release", units: units}, nil, g.last(), end)
		}
	}
	end := func(begun, e *history.Event) {
		s := step{what: e.Op, units: begun.Units, base: begun.Ver, value: begun.Value}
		to := e.T
		switch {
		case e.Op == "get" && e.Kind != history.OK:
			return
		case e.Op == "get":
			s.value = e.Value
		case e.Kind == history.Unknown:
			s.unknown, to = true, maxTime
		case e.Kind == history.Failed && e.Op == "permits":
			return
		case e.Kind == history.Failed:
			s.conflict = true
		}
		if e.Op != "permits" {
			models[begun.Object] = valueModel
		} else if models[begun.Object].Step == nil {
			return // none has acquired it
		}
		add(begun.Object, begun.Worker, s, e.Ver, begun.T, to)
	}
	open := map[history.Key]*history.Event{}
	for i := range j.events {
		e := &j.events[i]
		begun := open[e.Key()]
		if e.Kind == history.Invoke && (e.Op == "permits" || e.Op == "get" || e.Op == "set") {
			open[e.Key()] = e
		}
		if begun != nil && e.Op == begun.Op {
			delete(open, e.Key())
			end(begun, e)
		}
	}
	for _, e := range open { // their workers were killed
		end(e, &history.Event{Kind: history.Unknown, Op: e.Op})
	}
	v := j.verdicts[Order]
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, 2)
	for name, ops := range histories {
		if len(ops) > most {
			v.Undecided++
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			r := porcupine.CheckOperationsTimeout(models[name], ops, j.Decide)
			mu.Lock()
			defer mu.Unlock()
			v.Checked++
			switch r {
			case porcupine.Unknown:
				v.Undecided++
			case porcupine.Illegal:
				slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
				if first := ops[0].Call; j.loses(first, ops[len(ops)-1].Call) {
					v.Documented++
				} else {
					j.wrong(Order, name, first, "no order explains the %d steps%s", len(ops),
						shortest(models[name], ops, j.Decide/10))
				}
			}
		})
	}
	all.Wait()
	slices.SortFunc(j.Violations, func(a, b Violation) int {
		return strings.Compare(a.Promise+a.Object, b.Promise+b.Object)
	})
}

// shortest tells of the last steps of the first part of a history that no order explains.
func shortest(m porcupine.Model, ops []porcupine.Operation, within time.Duration) string {
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	low := sort.Search(len(ops), func(i int) bool {
		return porcupine.CheckOperationsTimeout(m, until(ops, i), within) == porcupine.Illegal
	})
	var text strings.Builder
	for _, o := range ops[max(0, low-6):min(len(ops), low+1)] {
		fmt.Fprintf(&text, "\n    %d to %d: worker %d: %+v → %v", o.Call, o.Return, o.ClientId, o.Input, o.Output)
	}
	return text.String()
}

// until is the history up to the return of the n-th operation: the calls that have begun by then have no end.
func until(ops []porcupine.Operation, n int) []porcupine.Operation {
	if n >= len(ops) {
		return ops
	}
	end := ops[n].Return
	part := slices.Clone(ops[:n+1])
	for _, o := range ops[n+1:] {
		if o.Call <= end && o.Input.(step).what != "acquire" {
			o.Return = maxTime
			part = append(part, o)
		}
	}
	return part
}
