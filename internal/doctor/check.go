package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Check is a row of a backend's table: what is looked at, what is said of it if nothing is wrong, and the function that
// looks. A finding that is empty is not said; [Sound] is said in the words of the row.
type Check = struct {
	Name, Sound string
	Of          func(context.Context) driver.Finding
}

// Sound is the finding that nothing is wrong.
var Sound = driver.Finding{Status: driver.OK}

// Examine makes all checks, one after the other, up to a needed one that fails: the others rely on it.
func Examine(ctx context.Context, needed []Check, others ...Check) (all []driver.Finding) {
	for i, c := range append(slices.Clip(needed), others...) {
		f := c.Of(ctx)
		if f == Sound {
			f.Detail = c.Sound
		}
		if f.Detail != "" {
			f.Check = c.Name
			all = append(all, f)
		}
		if i < len(needed) && f.Status == driver.Fail {
			break
		}
	}
	return all
}

// Use are the rows of what all clients do: a trial of a lock and a value, such as [Try], and the list of names, which
// locks do not need. The remedy is "" if the error names it.
func Use(s exchange.Store, try func(context.Context, exchange.Store) error, remedy func(error) string) []Check {
	return []Check{
		{"exchanges", "locks and values can be used", func(ctx context.Context) driver.Finding {
			return Answer(try(ctx, s), remedy)
		}},
		{"listing", "names can be read", func(ctx context.Context) driver.Finding {
			_, _, err := s.List(ctx, "", "")
			if err == nil {
				return Sound
			}
			return Warn("inspection: interlock ls shows nothing", cmp.Or(remedy(err), "see the error"), "%v", s.Explain(err))
		}},
	}
}

// TTL is the row about whether servers, which may bound it, grant a TTL as it is asked for.
func TTL(s exchange.Store, ask time.Duration, remedy string) Check {
	return Check{"TTL", "what is asked for is granted", func(ctx context.Context) driver.Finding {
		const promise = "the lock of a client that has died is passed on within its TTL, and no sooner"
		session := exchange.Session{ID: exchange.NewID(), TTL: ask, Owner: "doctor", Mailbox: exchange.NewMailbox()}
		begun, err := s.Begin(ctx, session)
		if err != nil {
			return Unknown(promise, err)
		}
		_, _ = s.End(ctx, session, nil)
		if begun.TTL != ask {
			return Warn(promise, remedy, "a TTL of %v was asked for, and %v was granted", ask, begun.TTL)
		}
		return Sound
	}}
}

// Server is the row that says why a server cannot be used.
func Server(err error, remedy func(error) string) Check {
	return Check{"server", "it answers", func(context.Context) driver.Finding { return Answer(err, remedy) }}
}

// Answer is the finding about an exchange that every lock needs.
func Answer(err error, remedy func(error) string) driver.Finding {
	if err == nil {
		return Sound
	}
	return Fail(EveryLock, cmp.Or(remedy(err), "see the error: it names the reason"), "%v", err)
}

// Older reports whether the version that a text begins with is older than another one. One that cannot be read is newer,
// most likely.
func Older(text string, than ...int) bool {
	var v [3]int
	n, _ := fmt.Sscanf(text, "%d.%d.%d", &v[0], &v[1], &v[2])
	return n > 1 && slices.Compare(v[:], than) < 0
}
