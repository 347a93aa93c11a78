package doctor

import (
	"context"

	"github.com/interlock-go/interlock/driver"
)

// Check is a row of a backend's table: what is looked at, what is said of it if nothing is wrong, and the function that
// looks. A finding that is empty is not said; [Sound] is said in the words of the row.
type Check = struct {
	Name, Sound string
	Of          func(context.Context) driver.Finding
}

// Sound is the finding that nothing is wrong.
var Sound = driver.Finding{Status: driver.OK}

// Examine makes all checks, one after the other.
func Examine(ctx context.Context, checks []Check) (all []driver.Finding) {
	for _, c := range checks {
		f := c.Of(ctx)
		if f == Sound {
			f.Detail = c.Sound
		}
		if f.Detail != "" {
			all = append(all, Of(c.Name, f))
		}
	}
	return all
}
