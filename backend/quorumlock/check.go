package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
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
	clock    doctor.Reading
}

// Check has the findings of the quorum itself, and those of each member with its name in front.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	all := ask(ctx, d, 10*time.Second, func(ctx context.Context, m driver.Driver) (st state, err error) {
		if st.life, err = lifeOf(ctx, m); err == nil && st.life != "" {
			st.sound, err = isSound(ctx, m, st.life)
		}
		st.findings = m.Check(ctx)
		st.clock = clockOf(ctx, m)
		return st, err
	})
	of := func(check func([]answer[state]) driver.Finding) func(context.Context) driver.Finding {
		return func(context.Context) driver.Finding { return check(all) }
	}
	found := doctor.Examine(ctx, nil, []doctor.Check{
		{"members", "all can be reached", of(d.checkReach)},
		{"number", fmt.Sprintf("%d members survive the loss of %d", len(all), len(all)-d.majority), of(checkNumber)},
		{"independence", "all have different addresses, and data of their own", of(checkTwins)},
		{"restarts", "a member that comes back without its data counts again after one TTL", of(checkLives)},
		{"clocks", "those of the members agree, of those that show them", of(checkClocks)},
	}...)
	for _, a := range all {
		for _, f := range a.got.findings {
			f.Check = a.m.name + ": " + f.Check
			found = append(found, f)
		}
	}
	return found
}

func (d *Driver) checkReach(all []answer[state]) driver.Finding {
	const remedy = "start them again, or look at the network between"
	away := failures(all)
	text := fmt.Sprintf("%d of %d can be reached, %d are needed; not %s", len(all)-len(away), len(all), d.majority, strings.Join(away, ", "))
	switch {
	case len(all)-len(away) < d.majority:
		return doctor.Fail(promiseAll, remedy, "%s", text)
	case len(away) > 0:
		return doctor.Warn(promiseLoss, remedy, "%s", text)
	}
	return doctor.Sound
}

func checkNumber(all []answer[state]) driver.Finding {
	if n := len(all); n%2 == 0 {
		return doctor.Warn(promiseLoss, fmt.Sprintf("have %d or %d members", n-1, n+1), "%d members survive the loss of %d, as %d do", n, n/2-1, n-1)
	}
	return doctor.Sound
}

func checkTwins(all []answer[state]) driver.Finding {
	first, found := map[string]string{}, doctor.Sound
	for _, a := range all {
		life, where := "life "+a.got.life, ""
		if u, err := driver.ParseURL(a.m.name); err == nil && len(u.Hosts) > 0 {
			where = u.Scheme + strings.Join(u.Hosts, ",")
		}
		switch {
		case a.got.life != "" && first[life] != "":
			return doctor.Fail(promiseLoss, "name each server once", "%s and %s are the same server, of which one does not count", first[life], a.m.name)
		case where != "" && first[where] != "":
			found = doctor.Warn(promiseLoss, "have each member on a machine of its own", "%s and %s are parts of one server: both are lost together", first[where], a.m.name)
		}
		first[life], first[where] = a.m.name, a.m.name
	}
	return found
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
	return doctor.Sound
}

// clockOf reads the clock of a member: a ticket shows when it has joined.
func clockOf(ctx context.Context, m driver.Driver) (none doctor.Reading) {
	s, err := m.Open(ctx, driver.SessionOptions{TTL: 10 * time.Second, Owner: "doctor"})
	if err != nil {
		return none
	}
	defer s.Close(ctx)
	r := driver.Request{ID: newID(), Queue: ownQueues + "clock", Kind: driver.Mutex, Units: 1, Capacity: 1}
	began := time.Now()
	_, _ = s.Join(ctx, r)
	ended := time.Now()
	q, _ := m.Follow(ctx, r.Queue, "")
	for _, t := range q.Members {
		if t.ID == r.ID && !t.Since.IsZero() {
			return doctor.Ahead("", t.Since, began, ended)
		}
	}
	return none
}

// checkClocks compares the members with each other: by the clock of this machine nothing is measured.
func checkClocks(all []answer[state]) driver.Finding {
	var known []doctor.Reading
	for _, a := range all {
		if a.got.clock.Of = a.m.name; a.got.clock.Wrong != 0 {
			known = append(known, a.got.clock)
		}
	}
	if len(known) < 2 {
		return doctor.Sound
	}
	if differ, text := doctor.Apart(known); differ > time.Second {
		return doctor.Warn("one holder at a time, if a clock is set forward while locks are held", doctor.Slewing, "%s", text)
	}
	return doctor.Sound
}

var errSameTwice = errors.New("the same member is named twice")
