package doctor

import (
	"context"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/fileclock"
	"github.com/interlock-go/interlock/internal/trust"
)

// Files are the rows of a backend without a server: whether all who see the files in a folder see their locks, and
// whether the clock of leases can be set. Open refuses a file system of a network.
func Files(folder string, clock fileclock.Clock) []Check {
	return []Check{
		{"file system", "all who see the files see their locks", func(context.Context) driver.Finding {
			kind, err := trust.Filesystem(folder)
			switch {
			case err != nil:
				return Unknown(Exclusion, err)
			case kind.Network || kind.Unknown:
				return Warn(Exclusion+", if the files are used on another machine, or through another mount of the folder",
					"use them on one machine and through one mount only, or move them to a disk", "%s: it cannot be told whether others see the files, but not the locks", kind.Name)
			}
			return Sound
		}},
		{"clock", "no step of the wall clock moves it", func(context.Context) driver.Finding {
			if fileclock.Steady {
				return Sound
			}
			return Warn("exclusion, while the clock is set forward by more than a lease's margin", "let the clock be slewed, not stepped", "leases are counted by %s", clock)
		}},
	}
}
