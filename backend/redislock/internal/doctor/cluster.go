package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

const slotsInAll = 1 << 14

// topology is a Cluster as one of its nodes sees it.
type topology struct {
	err      error
	state    string
	masters  int // that have slots
	replicas int
	served   [slotsInAll]bool
	own      [slotsInAll]bool // by the node that was asked
	dead     []string         // masters
	absent   []string         // replicas
	moving   bool
}

func (t *topology) known() bool { return t.state != "" }

func (n *node) askTopology(ctx context.Context, d *Doctor) (t topology) {
	info, err := n.text(ctx, d, "CLUSTER", "INFO")
	if err != nil {
		return topology{err: err}
	}
	nodes, err := n.text(ctx, d, "CLUSTER", "NODES")
	if err != nil {
		return topology{err: err}
	}
	t.state = lines(info)["cluster_state"]
	for line := range strings.Lines(nodes) {
		// id, address, flags, master, ping, pong, epoch, link, slots
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		addr, _, _ := strings.Cut(f[1], "@")
		flags := map[string]bool{}
		for flag := range strings.SplitSeq(f[2], ",") {
			flags[flag] = true
		}
		failed := flags["fail"] || flags["fail?"]
		switch {
		case flags["slave"] && failed:
			t.absent = append(t.absent, addr)
		case flags["slave"]:
			t.replicas++
		case flags["master"] && failed && len(f) > 8:
			t.dead = append(t.dead, addr)
		case flags["master"] && len(f) > 8:
			t.masters++
		}
		for _, slots := range f[8:] {
			if strings.HasPrefix(slots, "[") {
				t.moving = true
				continue
			}
			from, to, more := strings.Cut(slots, "-")
			a, err1 := strconv.Atoi(from)
			b, err2 := strconv.Atoi(to)
			if !more {
				b, err2 = a, nil
			}
			if err1 != nil || err2 != nil || a < 0 || b >= slotsInAll {
				continue
			}
			for s := a; s <= b; s++ {
				t.served[s] = !failed
				t.own[s] = flags["myself"]
			}
		}
	}
	return t
}

// gaps are the slots that nobody serves.
func (t *topology) gaps() (text string, n int) {
	var parts []string
	for s := 0; s < slotsInAll; s++ {
		if t.served[s] {
			continue
		}
		from := s
		for s+1 < slotsInAll && !t.served[s+1] {
			s++
		}
		n += s - from + 1
		if from == s {
			parts = append(parts, strconv.Itoa(s))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", from, s))
		}
	}
	const most = 5
	if len(parts) > most {
		parts = append(parts[:most], "…")
	}
	return strings.Join(parts, ", "), n
}

func (d *Doctor) checkCluster(_ context.Context, n *node) driver.Finding {
	t := &n.topology
	if t.err != nil {
		return doctor.Warn("every lock whose slot is not served", grant(d.User, "+cluster|info", "+cluster|nodes"),
			"its state cannot be seen: %v", t.err)
	}
	if !t.known() {
		return driver.Finding{} // not a Cluster
	}
	full := n.config["cluster-require-full-coverage"]
	missing, count := t.gaps()
	var parts []string
	if len(t.dead) > 0 {
		parts = append(parts, strings.Join(t.dead, ", ")+" does not answer the others")
	}
	if count > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d slots are not served (%s)", count, slotsInAll, missing))
	}
	what := strings.Join(parts, "; ")
	const repair = "start the master again, or have a replica take its place; then redis-cli --cluster check, and --cluster fix"
	switch {
	case t.state != "ok":
		return doctor.Fail(everyLock+" until the Cluster is whole"+
			coverage(full, "; with cluster-require-full-coverage no the other slots would go on"),
			repair, "cluster_state is %s; %s", t.state, cmp.Or(what, "why is not known"))
	case count > 0:
		return doctor.Fail("the locks in these slots: none of them can be acquired or renewed", repair, "%s", what)
	case len(t.absent) > 0:
		return doctor.Warn("that locks go on when a master dies: its replica is missing", "start the replica again",
			"%s, a replica, does not answer the others", strings.Join(t.absent, ", "))
	case t.masters < 3:
		return doctor.Warn("that locks go on when a master dies: the others are not the majority that a failover needs",
			"use three masters or more", "%d masters with slots", t.masters)
	}
	detail := fmt.Sprintf("%d masters serve all slots, with %d replicas", t.masters, t.replicas)
	if t.moving {
		detail += "; slots are being moved"
	}
	return doctor.Fine("%s", detail+coverage(full, "; one slot that is not served stops all (cluster-require-full-coverage)"))
}

func coverage(full, text string) string {
	if full != "yes" {
		return ""
	}
	return text
}
