package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
	"github.com/interlock-go/interlock/internal/oneline"
)

const (
	promiseAll  = "every lock: without a majority none can be acquired or renewed"
	promiseLoss = "the loss of a member is survived"
)

// state is what Check finds out about one member.
type state struct {
	life     string
	sound    bool
	findings []driver.Finding

	ahead, unsure time.Duration // its clock, of that of this machine
	timed         bool          // that is known
}

// Check has the findings of the quorum itself, and those of each member with its name in front.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	all := ask(ctx, d, 10*time.Second, func(ctx context.Context, m driver.Driver) (state, error) {
		var st state
		var err error
		if st.life, err = lifeOf(ctx, m); err == nil && st.life != "" {
			st.sound, err = isSound(ctx, m, st.life)
		}
		st.findings = m.Check(ctx)
		st.readClock(ctx, m)
		return st, err
	})
	found := []driver.Finding{
		doctor.Of("members", d.checkReach(all)),
		doctor.Of("number", d.checkNumber()),
		doctor.Of("independence", checkTwins(all)),
		doctor.Of("restarts", checkLives(all)),
		doctor.Of("clocks", checkClocks(all)),
	}
	for _, a := range all {
		if a.err != nil && len(a.got.findings) == 0 {
			found = append(found, doctor.Of(a.m.name, doctor.Fail(promiseLoss, "start it again, or look at the network between", "%s", oneline.Of(a.err.Error()))))
		}
		for _, f := range a.got.findings {
			f.Check = a.m.name + ": " + f.Check
			found = append(found, f)
		}
	}
	return found
}

func (d *Driver) checkReach(all []answer[state]) driver.Finding {
	var away []string
	for _, a := range all {
		if a.err != nil {
			away = append(away, a.m.name)
		}
	}
	text := fmt.Sprintf("%d of %d can be reached", len(all)-len(away), len(all))
	switch {
	case len(away) == 0:
		return doctor.Fine("%s", text)
	case len(all)-len(away) < d.majority:
		return doctor.Fail(promiseAll, "start them again, or look at the network between", "%s, %d are needed; not %s", text, d.majority, strings.Join(away, ", "))
	}
	return doctor.Warn(promiseLoss, "start it again, or look at the network between", "%s, %d are needed; not %s", text, d.majority, strings.Join(away, ", "))
}

func (d *Driver) checkNumber() driver.Finding {
	n := len(d.members)
	if n%2 == 0 {
		return doctor.Warn(promiseLoss, fmt.Sprintf("have %d or %d members", n-1, n+1), "%d members survive the loss of %d, as %d do", n, n-d.majority, n-1)
	}
	return doctor.Fine("%d members survive the loss of %d", n, n-d.majority)
}

func checkTwins(all []answer[state]) driver.Finding {
	first, at := map[string]string{}, map[string]string{}
	var one driver.Finding
	for _, a := range all {
		if same, ok := first[a.got.life]; ok && a.got.life != "" {
			return doctor.Fail(promiseLoss, "name each server once", "%s and %s are the same server, of which one does not count", same, a.m.name)
		}
		first[a.got.life] = a.m.name
		u, err := driver.ParseURL(a.m.name)
		if err != nil || len(u.Hosts) == 0 {
			continue
		}
		where := u.Scheme + strings.Join(u.Hosts, ",")
		if same, ok := at[where]; ok {
			one = doctor.Warn(promiseLoss, "have each member on a machine of its own", "%s and %s are parts of one server: both are lost together", same, a.m.name)
		}
		at[where] = a.m.name
	}
	if one != (driver.Finding{}) {
		return one
	}
	return doctor.Fine("all have different addresses, and data of their own")
}

// checkLives explains why a member that can be reached does not count.
func checkLives(all []answer[state]) driver.Finding {
	var fresh []string
	for _, a := range all {
		if a.err == nil && !a.got.sound {
			fresh = append(fresh, a.m.name)
		}
	}
	if len(fresh) > 0 {
		return doctor.Warn(promiseLoss, "wait for one TTL while a client is open: an empty member does not count before that, since it may have forgotten who held what",
			"new, or without the data that they had: %s", strings.Join(fresh, ", "))
	}
	return doctor.Fine("a member that comes back without its data counts again after one TTL")
}

// readClock reads the clock of a member: a ticket shows when it has joined.
func (st *state) readClock(ctx context.Context, m driver.Driver) {
	s, err := m.Open(ctx, driver.SessionOptions{TTL: 10 * time.Second, Owner: "doctor"})
	if err != nil {
		return
	}
	defer s.Close(ctx)
	r := driver.Request{ID: newID(), Queue: ownQueues + "clock", Kind: driver.Mutex, Units: 1, Capacity: 1}
	began := time.Now()
	_, err = s.Join(ctx, r)
	ended := time.Now()
	if err != nil {
		return
	}
	q, _ := m.Follow(ctx, r.Queue, "")
	for _, t := range q.Members {
		if t.ID == r.ID && !t.Since.IsZero() {
			st.ahead, st.unsure = doctor.Ahead(t.Since, began.Round(0), ended.Round(0))
			st.timed = true
		}
	}
}

// checkClocks compares the members with each other: by the clock of this machine nothing is measured.
func checkClocks(all []answer[state]) driver.Finding {
	all = slices.DeleteFunc(slices.Clone(all), func(a answer[state]) bool { return !a.got.timed })
	if len(all) < 2 {
		return doctor.Fine("fewer than two members show their clocks")
	}
	by := func(a, b answer[state]) int { return cmp.Compare(a.got.ahead, b.got.ahead) }
	first, last := slices.MinFunc(all, by), slices.MaxFunc(all, by)
	off, unsure := last.got.ahead-first.got.ahead, last.got.unsure+first.got.unsure
	if off-unsure > time.Second {
		return doctor.Warn("one holder at a time, if a clock is set forward while locks are held", "have NTP keep the clocks of all members, by slewing, not by steps",
			"the clock of %s is ahead of that of %s by %v ± %v", last.m.name, first.m.name, doctor.Short(off), doctor.Short(unsure))
	}
	return doctor.Fine("those of the members differ by %v ± %v", doctor.Short(off), doctor.Short(unsure))
}

var errSameTwice = errors.New("the same member is named twice")
