// Package suite is the frame that the suites of packages drivertest and primitives share: rules, and
// how they are tried.
package suite

import (
	"cmp"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

// A Rule checks one promise. T is the trial of the suite.
type Rule[T any] struct {
	Name string
	Says []string // the promise, in the words of the package that gives it
	Hook string   // the field of World without which it cannot be checked; "": none

	Exclusive bool // checked once for each shape of mutual exclusion
	Across    bool // checked once more with each client in a process of its own
	Exact     bool // an error of the backend is seen by the rule: no reply may get lost
	Processes bool // makes clients in other processes itself
	Alone     bool // counts things of the whole process, or takes all processors: not beside other rules
	Long      bool // begins before most others, since it takes longest

	Check func(T)
}

// Rules are the rules of a suite.
type Rules[T any] []Rule[T]

// Add adds a rule. It returns something so that a variable without a name can be set to it: then a rule
// stands like a declaration.
func (all *Rules[T]) Add(r Rule[T], check func(T)) (none struct{}) {
	r.Check = check
	*all = append(*all, r)
	return none
}

// Find is the rule of that name.
func (all Rules[T]) Find(name string) (r Rule[T], ok bool) {
	i := slices.IndexFunc(all, func(r Rule[T]) bool { return r.Name == name })
	if i < 0 {
		return r, false
	}
	return all[i], true
}

// Config is what the backend's own test says of a suite.
type Config struct {
	Package     string            // of the suite
	Processes   bool              // other processes can be clients
	Simulated   bool              // each rule runs in a bubble of testing/synctest
	Unsupported map[string]string // reasons by the names of rules
	Only        []string          // the rules that are checked; empty: all
}

// Run checks the rules beside each other, those that must be alone first. Each is checked by check, in each of its
// variants.
func Run[T any](t *testing.T, c Config, rules Rules[T], variants func(Rule[T]) []string, check func(tb testing.TB, r Rule[T], variant string)) {
	c.check(t, func(name string) bool { _, ok := rules.Find(name); return ok })
	if c.Simulated {
		OneProcessor(t)
	}
	first := func(is bool) int {
		if is {
			return 0
		}
		return 1
	}
	for _, r := range slices.SortedStableFunc(slices.Values(rules), func(a, b Rule[T]) int {
		return cmp.Or(first(a.Alone)-first(b.Alone), first(b.Long)-first(a.Long)) // go test begins with the last of them
	}) {
		if len(c.Only) > 0 && !slices.Contains(c.Only, r.Name) {
			continue
		}
		reason, unsupported := c.Unsupported[r.Name]
		if r.Processes && !c.Processes {
			reason, unsupported = "all clients of this backend are in one process", true
		}
		if unsupported {
			t.Run(r.Name, func(t *testing.T) { t.Skipf("not supported: %s", reason) })
			continue
		}
		// A test of the rule's name that held its variants would wait for them, and no
		// rule would ever run beside another.
		all := variants(r)
		for _, v := range all {
			name := r.Name
			if len(all) > 1 {
				name += "/" + v
			}
			t.Run(name, func(t *testing.T) {
				if !r.Alone {
					t.Parallel()
				}
				if c.Simulated {
					bubble.Run(t, func(t *testing.T) { check(t, r, v) })
				} else {
					check(t, r, v)
				}
			})
		}
	}
}

// check fails the test if Only or Unsupported names what is no rule, or if a reason is missing.
func (c Config) check(t testing.TB, known func(rule string) bool) {
	t.Helper()
	for _, rule := range c.Only {
		if !known(rule) {
			t.Errorf("%s: Only names %q, which is no rule", c.Package, rule)
		}
	}
	for rule, reason := range c.Unsupported {
		if !known(rule) {
			t.Errorf("%s: Unsupported names %q, which is no rule", c.Package, rule)
		}
		if reason == "" {
			t.Errorf("%s: Unsupported gives no reason for %s", c.Package, rule)
		}
	}
}

// OneProcessor is for tests in bubbles of synctest: the race detector crashes when
// two goroutines of a bubble run timers at the same moment (golang/go#78156).
func OneProcessor(t testing.TB) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// Stamp is an instant of a clock that all processes share.
func Stamp() int64 {
	if runtime.GOOS == "linux" {
		return int64(driver.Now())
	}
	return time.Now().UnixNano()
}
