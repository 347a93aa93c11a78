package doctor

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// checkPersistence says what is lost with the server, which frees locks that are
// held: their tickets are not there any more.
func (d *Doctor) checkPersistence(_ context.Context, n *node) driver.Finding {
	if n.infoErr != nil {
		return driver.Finding{} // see checkVisible
	}
	const promise = "exclusion, when the server comes back without its last writes: who holds is forgotten, " +
		"and is told by its next heartbeat only; values are lost too"
	const wait = ", or let it start again no sooner than the longest TTL after its end"
	if n.info["aof_enabled"] == "1" {
		sync := n.config["appendfsync"]
		switch {
		case sync == "":
			return doctor.Warn(promise, "see that appendfsync is always", "every write is appended to a file; when that is synced cannot be seen")
		case sync == "no":
			return doctor.Warn(promise, "set appendfsync to always"+wait,
				"every write is appended to a file (appendfsync no): a crash of the server loses nothing, of its machine what the system has not written yet, up to half a minute")
		case sync == "everysec":
			return doctor.Warn(promise, "set appendfsync to always"+wait,
				"every write is appended to a file, which is synced once a second (appendfsync everysec): a crash of the server loses nothing, of its machine up to two seconds")
		case n.config["no-appendfsync-on-rewrite"] == "yes":
			return doctor.Warn(promise, "set no-appendfsync-on-rewrite to no",
				"every write is synced (appendfsync always), but none while the file is rewritten (no-appendfsync-on-rewrite)")
		}
		return doctor.Fine("every write is synced before it is answered (appendfsync %s)", sync)
	}
	const remedy = "set appendonly to yes and appendfsync to always" + wait
	save, known := n.config["save"]
	switch {
	case !known:
		return doctor.Warn(promise, remedy, "no append-only file; whether there are snapshots cannot be seen")
	case save != "":
		last := "none yet"
		if at, ok := n.number("rdb_last_save_time"); ok {
			last = "the last of " + time.Unix(at, 0).Format(time.DateTime)
		}
		return doctor.Warn(promise, remedy, "snapshots only (save %s; %s): a crash brings back the locks and values of then", save, last)
	}
	detail := "nothing is saved: a restart frees all locks"
	if replicas, _ := n.number("connected_slaves"); replicas > 0 {
		detail += ", also those of the replicas, unless one has become the master before"
	}
	return doctor.Warn(promise, remedy, "%s", detail)
}

// checkMemory sees that the server neither drops locks nor refuses writes.
func (d *Doctor) checkMemory(_ context.Context, n *node) driver.Finding {
	policy := n.info["maxmemory_policy"]
	most, known := n.number("maxmemory")
	used, _ := n.number("used_memory")
	if policy == "" || !known {
		return driver.Finding{} // see checkVisible
	}
	if outside, ok := n.number("mem_not_counted_for_evict"); ok {
		used = max(0, used-outside)
	}
	size := mebi(used) + " used"
	if most > 0 {
		size = mebi(used) + " of " + mebi(most) + " used"
	}
	const keep = "set maxmemory-policy to noeviction, and keep caches in a server of their own"
	const refuses = everyLock + " while the memory is full: the server refuses to write"
	switch {
	case policy != "noeviction" && most > 0:
		return doctor.Fail(exclusion+": when memory is short the server drops locks that are held, and values",
			keep, "%s, and maxmemory-policy %s", size, policy)
	case policy != "noeviction":
		return doctor.Warn(exclusion+", as soon as maxmemory is set: the server may then drop locks that are held, and values",
			keep, "%s without a limit, and maxmemory-policy %s", size, policy)
	case most == 0:
		return doctor.Fine("%s, without a limit of its own", size)
	case used >= most:
		return doctor.Fail(refuses, "raise maxmemory, or remove other data", "%s (noeviction)", size)
	case used > most/10*9:
		return doctor.Warn(refuses, "raise maxmemory, or remove other data", "%s (noeviction)", size)
	}
	return doctor.Fine("%s (noeviction)", size)
}

func mebi(n int64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB" }

// checkConnections looks at what closes connections, and what keeps new ones out.
func (d *Doctor) checkConnections(_ context.Context, n *node) driver.Finding {
	clients, known := n.number("connected_clients")
	most, limited := n.setting("maxclients")
	if !limited {
		most, limited = n.number("maxclients")
	}
	idle, _ := n.setting("timeout")
	buffer, small := pubsubLimit(n.config["client-output-buffer-limit"])
	switch {
	case known && limited && 10*clients >= 9*most:
		return doctor.Warn("every lock of programs that connect anew, once there are too many connections",
			"raise maxclients, or share clients: one needs two to four connections",
			"%d of %d", clients, most)
	case small:
		return doctor.Warn("speed: who reads slowly is cut off from news, and finds out later what it missed",
			"set client-output-buffer-limit pubsub to 32mb 8mb 60",
			"news of at most %d bytes may be waiting for a client (client-output-buffer-limit pubsub)", buffer)
	case idle > 0 && idle < 10:
		return doctor.Warn("speed: connections are made again and again",
			"set timeout to 0, or to more than a minute", "the server closes those that were idle for %d s", idle)
	case known && limited:
		return doctor.Fine("%d of %d", clients, most)
	case known:
		return doctor.Fine("%d", clients)
	}
	return driver.Finding{}
}

// pubsubLimit reports whether a limit for subscribers is so small that the news for
// one busy client could exceed it.
func pubsubLimit(text string) (limit int64, small bool) {
	_, rest, ok := strings.Cut(text, "pubsub ")
	if !ok {
		return 0, false
	}
	const least = 1 << 20
	for i, f := range strings.Fields(rest) {
		n, err := strconv.ParseInt(f, 10, 64)
		if i < 2 && err == nil && n > 0 && n < least {
			return n, true
		}
	}
	return 0, false
}

// checkScripts looks at how long a script of somebody else may run before others
// are answered with BUSY. Ours take less than a millisecond.
func (d *Doctor) checkScripts(_ context.Context, n *node) driver.Finding {
	ms, known := n.setting("lua-time-limit") // since Redis 7 also busy-reply-threshold
	limit := time.Duration(ms) * time.Millisecond
	switch {
	case !known:
		return driver.Finding{}
	case ms > 0 && limit < 100*time.Millisecond:
		return doctor.Warn("speed: calls are refused and repeated while a script of another program runs",
			"set lua-time-limit (busy-reply-threshold) to 5000", "calls are refused once a script has run for %v", limit)
	case ms <= 0:
		return doctor.Fine("a script of another program is waited for without end")
	}
	return doctor.Fine("calls are refused once a script of another program has run for %v", limit)
}
