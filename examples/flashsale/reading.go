package flashsale

import (
	"fmt"
	"slices"
	"strings"
)

// Reading is how to read the results: three sentences at most, about what these results
// show.
func Reading(results []Result) []string {
	var all []string
	for _, say := range []func([]Result) string{aboutOversold, aboutExact, aboutStrike} {
		if s := say(results); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// find returns the first result of a strategy.
func find(results []Result, name string) (Result, bool) {
	i := slices.IndexFunc(results, func(r Result) bool { return r.Strategy == name })
	if i < 0 {
		return Result{}, false
	}
	return results[i], true
}

// aboutOversold is about what has no protection, or too little.
func aboutOversold(results []Result) string {
	none, withNone := find(results, "none")
	local, withLocal := find(results, "local")
	withNone, withLocal = withNone && none.Oversold > 0, withLocal && local.Oversold > 0
	const why = "two that read the same number sell the same piece"
	switch {
	case withNone && withLocal:
		return fmt.Sprintf("none sold %d too many, since %s, and local %d: a lock of one process does not keep out the other %d.",
			none.Oversold, why, local.Oversold, local.Workers-1)
	case withNone:
		return fmt.Sprintf("none sold %d too many: %s.", none.Oversold, why)
	case withLocal:
		return fmt.Sprintf("local sold %d too many: a lock of one process does not keep out the other %d.", local.Oversold, local.Workers-1)
	}
	return ""
}

// aboutExact is about when no lock is needed.
func aboutExact(results []Result) string {
	c, ok := find(results, "conditional")
	if !ok || !c.Exact() {
		exact := 0
		for _, r := range results {
			if r.Exact() {
				exact++
			}
		}
		return fmt.Sprintf("%d of %d sales were exact: as many orders as pieces, none lost, and no second piece for a buyer who clicked twice or asked again.", exact, len(results))
	}
	speed := "needs no lock"
	if !slices.ContainsFunc(results, func(r Result) bool { return r.Exact() && !r.strategy.redis && r.Seconds < c.Seconds }) {
		speed = "was the fastest that is exact, and needs no lock"
		if lua, ok := find(results, "lua"); ok && lua.Exact() && lua.Seconds < c.Seconds {
			speed = fmt.Sprintf("was the fastest that is exact and sells from the database, and needs no lock (lua sells from Redis; its last order was written after %.2f s)", lua.Written)
		}
	}
	return fmt.Sprintf("conditional %s: take it where one statement says all of it, and a lock where work between reading and writing, or other systems, are part of it.", speed)
}

// aboutStrike is about what happened to a worker, or what did not.
func aboutStrike(results []Result) string {
	mutex, withMutex := find(results, "mutex")
	fenced, withFenced := find(results, "fenced")
	lua, withLua := find(results, "lua")
	var takenOver string
	if withLua && lua.Strike == Kill {
		takenOver = fmt.Sprintf("With lua a consumer was killed that had written an order and not acknowledged it: others took over %d %s of the Stream, and did not write again the %d whose order was there.",
			lua.TakenOver, plural("entry", lua.TakenOver), lua.Repeated)
	}
	switch {
	case !withMutex && !withFenced:
		return takenOver
	case mutex.Strike == Stop || fenced.Strike == Stop:
		var said []string
		if withMutex {
			said = append(said, fmt.Sprintf("mutex sold %d too many", mutex.Oversold))
		}
		if withFenced {
			said = append(said, fmt.Sprintf("with fenced the database refused %d late %s", fenced.Refused, plural("write", fenced.Refused)))
		}
		return "A worker was stopped with the last piece in its hands, and went on when another had sold it: " + strings.Join(said, ", and ") + "."
	case mutex.Strike == Kill || fenced.Strike == Kill:
		return strings.TrimSpace("A worker was killed while it held the lock: next sale after is the time until another got the lock and sold the next piece. " + takenOver)
	}
	return "mutex and fenced look alike as long as every worker runs: --stop shows the difference, and --kill how long a dead worker keeps the lock."
}

func plural(noun string, n int) string {
	if n == 1 {
		return noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return stem + "ies"
	}
	return noun + "s"
}
