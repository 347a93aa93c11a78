package doctor

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Slewing is the remedy for a clock that is wrong.
const Slewing = "have NTP keep the clocks of all machines, by slewing, not by steps"

// Ahead is how far a server's clock is ahead of that of this machine, if it was read in an
// exchange that lasted from began to ended, and how wrong that may be.
func Ahead(server, began, ended time.Time) (ahead, wrong time.Duration) {
	wrong = ended.Sub(began) / 2
	return server.Sub(began.Add(wrong)), wrong
}

// Clock is the finding about a server's clock, by which leases are measured. Nothing is measured by that of this
// machine, but the difference shows a clock that somebody is going to correct.
func Clock(ahead, wrong time.Duration) driver.Finding {
	if ahead.Abs()-wrong > time.Second {
		return Warn("exclusion, if it is the server's clock that is wrong, and is set forward by more than the margin of a lease (a tenth of its TTL, a second at most)",
			Slewing, "differs from that of this machine by %v ± %v", Short(ahead), Short(wrong))
	}
	return Sound
}
