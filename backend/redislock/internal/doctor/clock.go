package doctor

import (
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// checkClocks compares the clocks by which leases are measured: those of all nodes,
// since a failover or a move of a slot changes the clock, and ours, by which nothing
// is measured, but which shows a clock that somebody is going to correct.
func checkClocks(nodes []*node) []driver.Finding {
	const byNodes, muchByNodes, byUs = 100 * time.Millisecond, time.Second, time.Second
	var first, last *node // of the clocks
	for _, n := range nodes {
		if !n.clock.known || n.err != nil {
			continue
		}
		if first == nil || n.clock.ahead < first.clock.ahead {
			first = n
		}
		if last == nil || n.clock.ahead > last.clock.ahead {
			last = n
		}
	}
	if first == nil {
		return nil
	}
	between := last.clock.ahead - first.clock.ahead
	unsure := first.clock.uncertain + last.clock.uncertain
	worst := last
	if first.clock.ahead.Abs() > last.clock.ahead.Abs() {
		worst = first
	}
	const slew = "have NTP keep the clocks of all machines, by slewing, not by steps"
	f := doctor.Fine("differs from that of this machine by %v ± %v", doctor.Short(worst.clock.ahead), doctor.Short(worst.clock.uncertain))
	switch {
	case between-unsure > byNodes:
		f = doctor.Warn("exclusion, when a lock moves to another node by a failover or a move of its slot: its lease ends earlier there, by the difference",
			slew, "that of %s is %v ± %v ahead of that of %s", last.addr, doctor.Short(between), doctor.Short(unsure), first.addr)
		if between-unsure > muchByNodes {
			f.Status = driver.Fail
		}
	case worst.clock.ahead.Abs()-worst.clock.uncertain > byUs:
		f = doctor.Warn("exclusion, if it is the server's clock that is wrong, and is set forward by more than the margin of a lease (a tenth of its TTL, a second at most)",
			slew, "differs from that of this machine by %v ± %v", doctor.Short(worst.clock.ahead), doctor.Short(worst.clock.uncertain))
	case first != last:
		f = doctor.Fine("those of the nodes differ by %v ± %v, from that of this machine by %v at most",
			doctor.Short(between), doctor.Short(unsure), doctor.Short(worst.clock.ahead.Abs()))
	}
	return []driver.Finding{doctor.Of("clock", f)}
}
