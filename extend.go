package interlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Extend makes a lease of ExpiresAfter end d from now, sooner or later than before: at most fifty years. It can be used
// for less than d, as [ExpiresAfter] says. An exchange whose reply is lost is repeated until ctx
// ends; when it is not known which of the two ends holds, the lease ends at the earlier. All parts of
// a lease of [All] are extended; if that fails for one, those after it have the ends of before.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	for _, p := range l.held.Parts() {
		switch {
		case !p.Fixed():
			return l.failPart("extend", p, errNotFixed)
		case d <= 0 || d > maxTime:
			return l.failPart("extend", p, driver.Invalid(fmt.Errorf("the time %v is not more than 0 and at most %v", d, maxTime)))
		}
	}
	for _, p := range l.held.Parts() {
		if err := p.Extend(ctx, d); err != nil {
			return l.failPart("extend", p, err)
		}
	}
	return l.fail("extend", l.Err())
}

var errNotFixed = driver.Invalid(errors.New("only a lease of ExpiresAfter has a fixed end; this one is renewed by itself"))
