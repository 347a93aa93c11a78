package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/request"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

func (d *Doctor) checkConnection(ctx context.Context) driver.Finding {
	if d.err != nil {
		return Unreachable(d.err)
	}
	trip := d.trial.trip
	if trip == 0 { // no write was possible
		began := time.Now()
		if err := request.Sync(ctx, d.session.Conn, d.top()); err != nil {
			return Unreachable(err)
		}
		trip = time.Since(began)
	}
	timeout := d.session.Timeout()
	detail := fmt.Sprintf("%s has granted a session of %v; the leader answers in %v", d.session.Conn.Server(), timeout, doctor.Short(trip))
	if trip > doctor.SlowTrip {
		return doctor.Warn("speed: each grant and each release takes that long at least",
			"use servers nearby, with a disk of their own for the log", "%s", detail)
	}
	return doctor.Fine("%s", detail)
}

// checkServers looks at the servers that the URL names.
func (d *Doctor) checkServers(context.Context) driver.Finding {
	var bad, good []string
	for _, s := range d.servers {
		yes, known := s.serves()
		switch {
		case s.err != nil:
			bad = append(bad, fmt.Sprintf("%s cannot be reached: %v", s.addr, s.err))
		case known && !yes:
			bad = append(bad, s.addr+" does not serve: it has no quorum")
		case s.mode != "":
			good = append(good, s.addr+" is "+s.mode)
		default:
			good = append(good, s.addr+" answers")
		}
	}
	switch {
	case len(bad) > 0:
		return doctor.Warn(goesOn+": there are fewer to go to", "start them, or correct the URL; with TLS only, it begins with zks:",
			"%s", strings.Join(append(bad, good...), "; "))
	case len(good) > 0:
		return doctor.Fine("%s", strings.Join(good, "; "))
	}
	return driver.Finding{}
}

func (d *Doctor) checkVersion(context.Context) driver.Finding {
	const older = "containers, which do away with the nodes of locks that nobody uses: a lock cannot be made"
	version := ""
	for _, s := range d.servers {
		v, _, _ := strings.Cut(s.version, ",")
		v, _, _ = strings.Cut(v, "-")
		if v == "" {
			continue
		}
		if versionLess(v, "3.5") {
			return doctor.Fail("every lock: there are no "+older, "use ZooKeeper 3.5.1 or later", "%s is ZooKeeper %s", s.addr, v)
		}
		if version == "" || versionLess(v, version) {
			version = v
		}
	}
	switch {
	case version != "" && versionLess(version, sound) && !d.alone():
		return doctor.Warn("that failovers lose nothing: servers may differ in what they have after a leader has crashed",
			"use ZooKeeper "+sound+" or later", "ZooKeeper %s has %s", version, strings.Join(faults(version), ", "))
	case version != "":
		return doctor.Fine("ZooKeeper %s", version)
	case d.members != nil:
		return doctor.Fine("ZooKeeper 3.5 or later")
	}
	return driver.Finding{}
}

// sound is the first version without the known faults by which servers lose transactions
// when leaders crash.
const sound = "3.9.4"

// faults names those of a version, by what its makers have published of what they mended.
func faults(version string) (names []string) {
	if versionLess(version, "3.8.4") || !versionLess(version, "3.9") && versionLess(version, "3.9.2") {
		names = append(names, "ZOOKEEPER-4785")
	}
	if versionLess(version, "3.9.3") {
		return append(names, "ZOOKEEPER-4394", "ZOOKEEPER-4712")
	}
	return append(names, "ZOOKEEPER-4925")
}

func parseVersion(v string) (number [3]int) {
	for i, part := range strings.SplitN(v, ".", 3) {
		number[i], _ = strconv.Atoi(part)
	}
	return number
}

func versionLess(a, b string) bool {
	x, y := parseVersion(a), parseVersion(b)
	return slices.Compare(x[:], y[:]) < 0
}

// members are the servers of an ensemble; none of one that stands alone.
type members struct{ voters, observers int }

// askEnsemble reads the node that says who belongs to the ensemble, which all
// may read, from 3.5 on.
func (d *Doctor) askEnsemble(ctx context.Context) {
	if data, _, err := d.get(ctx, "/zookeeper/config"); err == nil {
		d.members = parseMembers(string(data))
	}
}

func parseMembers(text string) *members {
	m := &members{}
	for key, value := range pairs(text, "=") {
		switch {
		case !strings.HasPrefix(key, "server."):
		case strings.Contains(value, ":observer"):
			m.observers++
		default:
			m.voters++
		}
	}
	return m
}

// alone reports whether the server is known to stand alone.
func (d *Doctor) alone() bool {
	return d.members != nil && d.members.voters == 0 ||
		slices.ContainsFunc(d.servers, func(s *server) bool { return s.mode == "standalone" })
}

func (d *Doctor) checkQuorum(context.Context) driver.Finding {
	if d.err != nil {
		return driver.Finding{}
	}
	synced, voters := -1, 0
	for _, s := range d.servers {
		if n, err := strconv.Atoi(s.figures["zk_synced_followers"]); err == nil {
			synced = n
		}
	}
	if d.members != nil {
		voters = d.members.voters
	}
	const three = "use an ensemble of three servers, or five"
	switch {
	case d.alone():
		return doctor.Warn(goesOn+": there is no other", three, "one server that stands alone")
	case voters == 0:
		return driver.Finding{}
	case voters < 3:
		return doctor.Warn(goesOn+": those that are left are no majority", three, "%d servers that vote", voters)
	case synced >= 0 && synced < voters-1:
		return doctor.Warn(goesOn+": fewer may die", "start the others, and look at their logs",
			"%d of %d followers keep up with the leader", synced, voters-1)
	case len(d.Hosts) > 0 && len(d.servers) < 2:
		return doctor.Warn(goesOn+": this program does not know the others", "name all servers in the URL: zk://host1,host2,host3",
			"%d servers vote, and the URL names one", voters)
	}
	return doctor.Fine("%d servers vote, of which %d may be missing", voters, (voters-1)/2)
}
