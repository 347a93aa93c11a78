package redislock

import (
	"context"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// Check examines the server, in a Cluster every node. What it may not see is a
// warning, and keeps it from nothing else.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	if err := d.usable(ctx); err != nil {
		return []driver.Finding{doctor.Of(whoAnswers, unreachable(err))}
	}
	nodes := d.examine(ctx)
	var all []driver.Finding
	for _, c := range []struct {
		name string
		of   func(context.Context, *node) driver.Finding
	}{
		{whoAnswers, d.checkServer},
		{"version", d.checkVersion},
		{"mode", d.checkMode},
		{"rights", d.checkRights},
		{"writing", d.checkWriting},
		{"listing", d.checkListing},
		{"messages", d.checkMessages},
		{"persistence", d.checkPersistence},
		{"replication", d.checkReplication},
		{"memory", d.checkMemory},
		{"cluster", d.checkCluster},
		{"connections", d.checkConnections},
		{"scripts", d.checkScripts},
		{"configuration", d.checkVisible},
	} {
		found := map[*node]driver.Finding{}
		for _, n := range nodes {
			if n.err == nil || c.name == whoAnswers {
				found[n] = c.of(ctx, n)
			}
		}
		all = append(all, merge(c.name, nodes, found)...)
	}
	return append(all, checkClocks(nodes)...)
}

const (
	everyLock = "every lock: none can be acquired or renewed"
	exclusion = "exclusion: two could hold one lock"
)

func unreachable(err error) driver.Finding {
	return doctor.Fail(everyLock, "see that the server runs, and that the URL names it", "%v", err)
}

// whoAnswers is the check that says which nodes there are: it names each, also if all
// are alike.
const whoAnswers = "server"

// merge says once what is true of several nodes, and names those that differ.
func merge(subject string, nodes []*node, found map[*node]driver.Finding) []driver.Finding {
	var order []driver.Finding
	who := map[driver.Finding][]string{}
	said := 0
	for _, n := range nodes {
		f := found[n]
		if f == (driver.Finding{}) {
			continue
		}
		said++
		if who[f] == nil {
			order = append(order, f)
		}
		who[f] = append(who[f], n.addr)
	}
	var all []driver.Finding
	var good []string
	for _, f := range order {
		where := strings.Join(who[f], ", ")
		switch {
		case len(who[f]) == said && (said == 1 || subject != whoAnswers):
			all = append(all, doctor.Of(subject, f))
		case f.Status == driver.OK:
			good = append(good, where+": "+f.Detail)
		default:
			all = append(all, doctor.Of(subject+" of "+where, f))
		}
	}
	if len(good) > 0 {
		all = slices.Insert(all, 0, doctor.Of(subject, doctor.Fine("%s", strings.Join(good, "; "))))
	}
	return all
}
