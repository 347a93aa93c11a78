package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// replica is one as its master sees it.
type replica struct {
	addr   string
	online bool
	behind int64         // bytes
	silent time.Duration // since it has said how far it is
}

func (n *node) replicas() []replica {
	var all []replica
	end, _ := n.number("master_repl_offset")
	for i := 0; ; i++ {
		text, ok := n.info["slave"+strconv.Itoa(i)]
		if !ok {
			return all
		}
		f := map[string]string{}
		for part := range strings.SplitSeq(text, ",") {
			k, v, _ := strings.Cut(part, "=")
			f[k] = v
		}
		r := replica{addr: f["ip"] + ":" + f["port"], online: f["state"] == "online"}
		if at, err := strconv.ParseInt(f["offset"], 10, 64); err == nil {
			r.behind = max(0, end-at)
		}
		if s, err := strconv.ParseInt(f["lag"], 10, 64); err == nil {
			r.silent = time.Duration(s) * time.Second
		}
		all = append(all, r)
	}
}

// checkReplication says what a failover may lose, and whether the replicas that
// grants wait for are there.
func (d *Doctor) checkReplication(_ context.Context, n *node) driver.Finding {
	if n.infoErr != nil || n.isReplica() {
		return driver.Finding{}
	}
	all := n.replicas()
	online := 0
	behind := int64(0)
	var late []string
	for _, r := range all {
		behind = max(behind, r.behind)
		switch {
		case !r.online:
			late = append(late, r.addr+" is not in sync")
		case r.silent > 10*time.Second:
			online++
			late = append(late, fmt.Sprintf("%s was last heard of %v ago", r.addr, r.silent))
		default:
			online++
		}
	}
	shown := fmt.Sprintf("%d in sync, %d bytes behind at most", online, behind)
	required, _ := n.setting("min-replicas-to-write")
	const afterFailover = "exclusion, after a failover: a holder whose grant the new master has not received is forgotten, " +
		"and is told by its next heartbeat only"
	switch {
	case online < d.Replicas:
		if len(all) == 0 {
			shown = "no replica"
		}
		return doctor.Fail(everyLock+" with replicas="+strconv.Itoa(d.Replicas),
			"connect more replicas, or lower replicas in the URL", "%s, and the URL says replicas=%d", shown, d.Replicas)
	case int64(online) < required:
		return doctor.Fail(everyLock, "connect more replicas, or lower min-replicas-to-write",
			"%s, and min-replicas-to-write is %d", shown, required)
	case len(late) > 0:
		return doctor.Warn(afterFailover, "look at the replicas and their network", "%s", strings.Join(late, "; "))
	case online > 0 && d.Replicas == 0:
		return doctor.Warn(afterFailover,
			"add ?replicas=1 (or more) to the URL: a grant then counts when so many replicas have it; "+
				"and set min-replicas-to-write, so that a master that is cut off stops granting",
			"asynchronous: %s; min-replicas-to-write is %s", shown, cmp.Or(n.config["min-replicas-to-write"], "not known"))
	case online > d.Replicas:
		return doctor.Fine("%s; a grant counts when %d have it, and a failover prefers the one that has most", shown, d.Replicas)
	case online > 0:
		return doctor.Fine("%s; a grant counts when all have it", shown)
	case d.Redis.Mode() != rueidis.ClientModeStandalone:
		return doctor.Warn("that locks go on when the master dies: nobody can take its place", "connect a replica", "no replica")
	}
	return doctor.Fine("no replica, so nothing is lost by a failover")
}
