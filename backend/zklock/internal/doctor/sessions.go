package doctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// usual is the TTL that programs ask for which do not choose one.
const usual = 15 * time.Second

// checkSessions finds out which TTLs are granted. Each server has limits of its
// own for the sessions that it opens.
func (d *Doctor) checkSessions(ctx context.Context) driver.Finding {
	if d.err != nil {
		return driver.Finding{}
	}
	lo, hi, told := d.limits()
	exactly := true
	if !told {
		var err error
		if lo, hi, exactly, err = d.tryLimits(ctx); err != nil {
			return doctor.Warn("that a lock is passed on in time when its holder dies", "see the logs of the servers",
				"which TTLs are granted could not be found out: %v", err)
		}
	}
	from := lo.String()
	if !exactly {
		from = "at most " + from
	}
	detail := fmt.Sprintf("TTLs from %s to %v are granted; what is asked for beyond is cut to that", from, hi)
	switch {
	case lo > usual:
		return doctor.Warn("that a lock is passed on within the usual TTL when its holder dies: it takes longer",
			"lower minSessionTimeout or tickTime, on all servers", "%s, and the usual one is %v", detail, usual)
	case hi < usual:
		return doctor.Warn("that a lock outlasts an interruption of the usual TTL: it is lost sooner",
			"raise maxSessionTimeout or tickTime, on all servers", "%s, and the usual one is %v", detail, usual)
	}
	return doctor.Fine("%s", detail)
}

// limits are those that all servers have in common which tell theirs.
func (d *Doctor) limits() (lo, hi time.Duration, told bool) {
	for _, s := range d.servers {
		a, err1 := strconv.Atoi(s.conf["minSessionTimeout"])
		b, err2 := strconv.Atoi(s.conf["maxSessionTimeout"])
		if err1 != nil || err2 != nil {
			continue
		}
		least, most := time.Duration(a)*time.Millisecond, time.Duration(b)*time.Millisecond
		if !told || least > lo {
			lo = least
		}
		if !told || most < hi {
			hi = most
		}
		told = true
	}
	return lo, hi, told
}

// shortest is asked for in order to see what is granted instead. The client gives
// up a handshake that takes longer than about seven times that.
const shortest = 100 * time.Millisecond

const longest = 24 * 24 * time.Hour // the protocol counts milliseconds in 31 bits

func (d *Doctor) tryLimits(ctx context.Context) (lo, hi time.Duration, exactly bool, err error) {
	for _, ask := range []struct {
		ttl     time.Duration
		granted *time.Duration
	}{{shortest, &lo}, {longest, &hi}} {
		s, err := d.Beside(ctx, ask.ttl)
		if err != nil {
			return 0, 0, false, err
		}
		*ask.granted = s.Timeout()
		s.Close()
	}
	return lo, hi, lo > shortest, nil
}
