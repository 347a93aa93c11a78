package redislock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Check examines the server, in a Cluster every node. What it may not see is a
// warning, and keeps it from nothing else.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	if err := d.usable(ctx); err != nil {
		return []driver.Finding{unreachable(err).of("server")}
	}
	nodes := d.examine(ctx)
	var all []driver.Finding
	for _, c := range []struct {
		name string
		of   func(context.Context, *node) finding
	}{
		{"server", d.checkServer},
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
		found := map[*node]finding{}
		for _, n := range nodes {
			if n.err == nil || c.name == "server" {
				found[n] = c.of(ctx, n)
			}
		}
		all = append(all, merge(c.name, nodes, found)...)
	}
	return append(all, checkClocks(nodes)...)
}

// finding is a driver.Finding without its subject. The zero value has nothing to say.
type finding struct {
	status                  driver.Status
	detail, promise, remedy string
}

func (f finding) of(subject string) driver.Finding {
	return driver.Finding{Check: subject, Status: f.status, Detail: f.detail, Promise: f.promise, Remedy: f.remedy}
}

const (
	everyLock = "every lock: none can be acquired or renewed"
	exclusion = "exclusion: two could hold one lock"
)

func fine(format string, args ...any) finding {
	return finding{status: driver.OK, detail: fmt.Sprintf(format, args...)}
}

func warn(promise, remedy, format string, args ...any) finding {
	return finding{driver.Warn, fmt.Sprintf(format, args...), promise, remedy}
}

func fail(promise, remedy, format string, args ...any) finding {
	return finding{driver.Fail, fmt.Sprintf(format, args...), promise, remedy}
}

func unreachable(err error) finding {
	return fail(everyLock, "see that the server runs, and that the URL names it", "%v", err)
}

// merge says once what is true of several nodes.
func merge(subject string, nodes []*node, found map[*node]finding) []driver.Finding {
	var order []finding
	who := map[finding][]string{}
	said := 0
	for _, n := range nodes {
		f := found[n]
		if f == (finding{}) {
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
		case len(who[f]) == said:
			all = append(all, f.of(subject))
		case f.status == driver.OK:
			good = append(good, where+": "+f.detail)
		default:
			all = append(all, f.of(subject+" of "+where))
		}
	}
	if len(good) > 0 {
		all = slices.Insert(all, 0, fine("%s", strings.Join(good, "; ")).of(subject))
	}
	return all
}

// short leaves out digits that nobody needs.
func short(t time.Duration) time.Duration {
	switch {
	case t.Abs() < time.Millisecond:
		return t.Round(time.Microsecond)
	case t.Abs() < time.Second:
		return t.Round(100 * time.Microsecond)
	}
	return t.Round(time.Millisecond)
}
