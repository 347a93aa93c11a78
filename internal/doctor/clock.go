package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Slewing is the remedy for a clock that is wrong.
const Slewing = "have NTP keep the clocks of all machines, by slewing, not by steps"

// Reading is how far a server's clock is ahead of that of this machine, and how wrong that may be; zero: not known.
type Reading struct {
	Of           string
	Ahead, Wrong time.Duration
}

// Ahead is the reading of a clock that was read in an exchange that lasted from began to ended.
func Ahead(of string, server, began, ended time.Time) Reading {
	wrong := ended.Round(0).Sub(began.Round(0)) / 2
	const shown = 100 * time.Microsecond
	return Reading{of, server.Sub(began.Round(0).Add(wrong)).Round(shown), wrong.Round(shown) + shown}
}

// Differs is the finding about a server's clock. Nothing is measured by that of this machine, but the difference shows a
// clock that somebody is going to correct.
func (r Reading) Differs(promise string) driver.Finding {
	if r.Ahead.Abs()-r.Wrong > time.Second {
		return Warn(promise, Slewing, "%s differs from that of this machine by %v ± %v", r.Of, r.Ahead, r.Wrong)
	}
	return Sound
}

// Forward is what a clock that is wrong affects where leases are measured by it.
const Forward = "exclusion, if it is the server's clock that is wrong, and is set forward by more than the margin of a lease (a tenth of its TTL, a second at most)"

// Clock is the row about the clock of the only server. It is read in microseconds since 1970.
func Clock(read func(context.Context) (int64, error)) Check {
	return Check{"clock", "it agrees with that of this machine", func(ctx context.Context) driver.Finding {
		began := time.Now()
		now, err := read(ctx)
		if err != nil {
			return Unknown(Exclusion, err)
		}
		return Ahead("that of the server", time.UnixMicro(now), began, time.Now()).Differs(Forward)
	}}
}

// Apart says by how much the clocks of servers differ, at least, and in words.
func Apart(all []Reading) (atLeast time.Duration, text string) {
	by := func(a, b Reading) int { return cmp.Compare(a.Ahead, b.Ahead) }
	first, last := slices.MinFunc(all, by), slices.MaxFunc(all, by)
	off, wrong := last.Ahead-first.Ahead, last.Wrong+first.Wrong
	return off - wrong, fmt.Sprintf("the clock of %s is %v ± %v ahead of that of %s", last.Of, off, wrong, first.Of)
}
