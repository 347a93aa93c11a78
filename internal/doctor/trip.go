package doctor

import (
	"time"

	"github.com/interlock-go/interlock/driver"
)

// SlowTrip is what an exchange may take before a finding warns of it. Tests set it aside:
// their servers share a machine with others.
var SlowTrip = 100 * time.Millisecond

// Trip is the finding of how long an exchange takes.
func Trip(took time.Duration) driver.Finding {
	if took > SlowTrip {
		return Warn("speed: each grant and each release takes that long at least", "use a server nearby", "it answers in %v", Short(took))
	}
	return Fine("it answers in %v", Short(took))
}
