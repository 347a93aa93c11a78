package doctor

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

func (d *Doctor) checkLarge(context.Context) driver.Finding {
	switch err := d.trial.large; {
	case d.err != nil || !d.trial.wide:
		return driver.Finding{}
	case errors.Is(err, zk.ErrNoAuth):
		return driver.Finding{} // see checkMarks
	case err != nil:
		return doctor.Warn("values and long lines: a server ends the connection of who sends a longer message",
			"leave jute.maxbuffer at its default of a million bytes, or at 128 KiB at least, on all servers",
			"a value of %d bytes is not accepted: %v", driver.MaxCell, err)
	}
	return doctor.Fine("up to %d bytes are accepted", driver.MaxCell)
}

// checkClock compares the leader's clock with ours, by which nothing is measured, but
// which shows a clock that somebody is going to correct.
func (d *Doctor) checkClock(context.Context) driver.Finding {
	c := d.trial.clock
	if d.err != nil || !c.known {
		return driver.Finding{}
	}
	if c.ahead.Abs()-c.uncertain > time.Second {
		return doctor.Warn("leases of a fixed time (Hold, AtLeast, Keep), if the leader's clock is the wrong one and is corrected, or another leader's differs: they end that much sooner or later; all others are not measured by it",
			"have NTP keep the clocks of all servers, by slewing, not by steps",
			"that of the leader differs from that of this machine by %v ± %v", doctor.Short(c.ahead), doctor.Short(c.uncertain))
	}
	return doctor.Fine("that of the leader differs from that of this machine by %v ± %v", doctor.Short(c.ahead), doctor.Short(c.uncertain))
}

// checkTokens looks how many leaders there have been: their number is the upper
// part of each transaction; and whether transactions have fallen back, by what programs have noted that
// went on, or by what was copied from another ensemble.
func (d *Doctor) checkTokens(context.Context) driver.Finding {
	if d.err != nil || d.trial.zxid == 0 {
		return driver.Finding{}
	}
	const most = driver.MaxToken >> 32
	leaders := uint64(d.trial.zxid) >> 32
	if now := uint64(d.trial.zxid); d.trial.reached > now {
		return doctor.Warn("that tokens grow: resources that check them may refuse who gets a lock now; and two may have held one",
			"interlock token raise --all FLOOR, with a FLOOR above the largest token that resources have seen, or --all --ahead 24h; and start no server with old data, or none, before those that have the latest",
			"the ensemble is at transaction %#x, and had reached %#x before: it has lost data, or was restored", now, d.trial.reached)
	}
	const remedy = "start a new ensemble before that, stop the programs meanwhile, and raise the tokens of resources that check them to what they have seen"
	switch {
	case leaders >= most:
		return doctor.Fail(everyLock+": its token would be too large", remedy, "the ensemble has elected %d leaders, and %d is the limit", leaders, most)
	case leaders > most/10*9:
		return doctor.Warn("every lock, once the limit is reached", remedy, "the ensemble has elected %d leaders, and %d is the limit", leaders, most)
	}
	return doctor.Fine("the ensemble has elected %d leaders, of %d that leave room for tokens", leaders, most)
}

// checkFloors looks whether it can be read what raised tokens are raised by.
func (d *Doctor) checkFloors(context.Context) driver.Finding {
	if len(d.trial.illegible) == 0 {
		return driver.Finding{}
	}
	return doctor.Warn("speed, and the names whose record below it cannot be read either: none of these can be acquired",
		"interlock token raise NAME FLOOR (or --all), with a FLOOR above all tokens that were granted, writes it anew; and see who may write there: rights and access",
		"%s is not as it was written (of %s)", d.Aside("floors"), strings.Join(d.trial.illegible[:min(len(d.trial.illegible), 5)], ", "))
}

// checkPersistence sees from the figures whether servers wait for their disks: how
// often they have, and how many changes they have written.
func (d *Doctor) checkPersistence(context.Context) driver.Finding {
	var never []string
	slowest, seen := 0.0, false
	for _, s := range d.servers {
		syncs, err1 := strconv.ParseFloat(s.figures["zk_cnt_fsynctime"], 64)
		changes, err2 := strconv.ParseFloat(s.figures["zk_cnt_sync_process_time"], 64)
		if err1 != nil || err2 != nil {
			continue
		}
		const enough = 5 // the last ones may be on their way to the disk
		switch {
		case syncs > 0:
			seen = true
			if ms, err := strconv.ParseFloat(s.figures["zk_avg_fsynctime"], 64); err == nil {
				slowest = max(slowest, ms)
			}
		case changes >= enough:
			never = append(never, s.addr)
		}
	}
	switch {
	case len(never) > 0:
		return doctor.Warn("exclusion, tokens and values, when machines lose their power together: what was granted last is forgotten, and tokens may come back",
			"take forceSync=no out of the configuration of all servers",
			"%s writes without waiting for the disk", strings.Join(never, ", "))
	case seen:
		return doctor.Fine("changes are on disk before they are confirmed, which takes %s ms on average",
			strconv.FormatFloat(slowest, 'f', 1, 64))
	}
	return driver.Finding{}
}
