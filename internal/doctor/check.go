package doctor

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// Check looks at one thing. Its finding is empty if there is nothing to be said. It is an alias, so that
// lists of checks need no names of fields.
type Check = struct {
	Name string
	Of   func(context.Context) driver.Finding
}

// Examine makes all checks, one after the other.
func Examine(ctx context.Context, checks []Check) (all []driver.Finding) {
	for _, c := range checks {
		if f := c.Of(ctx); f != (driver.Finding{}) {
			all = append(all, Of(c.Name, f))
		}
	}
	return all
}
