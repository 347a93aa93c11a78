package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/backend/pglock/internal/database"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

// checkNews makes sure that waiters are told of grants.
func (d *Doctor) checkNews(ctx context.Context) driver.Finding {
	if d.Standby {
		return driver.Finding{}
	}
	const remedy = "add direct=URL, the URL of the server itself, for the one connection on which news arrive"
	if d.Pooled && !d.direct {
		return doctor.Warn(waking, remedy, "there is a pooler in between: waiters look again and again, the more seldom the longer they wait")
	}
	if err := d.hears(ctx); err != nil {
		return doctor.Warn(waking, remedy, "%v", err)
	}
	if d.Pooled {
		return doctor.Fine("they arrive, beside the pooler")
	}
	return doctor.Fine("they arrive")
}

// checkCrash says what a crash of the server means, and whether there was one.
func (d *Doctor) checkCrash(ctx context.Context) driver.Finding {
	if !d.made.There || d.Standby || d.unknown != nil || len(d.lacks) > 0 {
		return driver.Finding{} // see the others
	}
	if !d.made.Unlogged {
		return doctor.Fine("the tables of locks are logged: a crash of the server loses no lock")
	}
	var grace, longest int64
	var crashes int64
	err := d.row(ctx, "SELECT coalesce((SELECT safe FROM "+d.layout.Name("sentinel")+"), 0) - "+database.NowUS+", longest, greatest(incarnation - 1, 0) FROM "+d.layout.Name("meta"),
		&grace, &longest, &crashes)
	switch {
	case err != nil:
		return d.failed("exclusion: a crash of the server", err)
	case grace > 0:
		return doctor.Warn("speed: nothing is granted until then", "wait", "the server has crashed; leases of before may be held for another %v", doctor.Short(micros(grace)))
	case micros(longest) > 5*time.Minute:
		return doctor.Warn(speed+": nothing is granted for that long after a crash of the server",
			"use TTLs of seconds; to forget longer ones of which no session is left: UPDATE "+d.layout.Name("meta")+" SET longest = 15000000",
			"a TTL of %v was asked for once", micros(longest))
	}
	return doctor.Fine("after a crash of the server nothing is granted for %v; there were %d", micros(longest+longest/100), crashes)
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// setting is one of the server, empty if it has none of that name.
func (d *Doctor) setting(ctx context.Context, name string) (string, error) {
	var v string
	err := d.row(ctx, "SELECT coalesce(current_setting('"+name+"', true), '')", &v)
	return v, err
}

// checkDisk looks at whether the server waits for its disk.
func (d *Doctor) checkDisk(ctx context.Context) driver.Finding {
	for _, name := range []string{"fsync", "full_page_writes"} {
		v, err := d.setting(ctx, name)
		if err != nil {
			return d.failed(lasting, err)
		}
		if v == "off" {
			return doctor.Fail(lasting+", and a power loss may damage all of the database", name+" = on", "%s is off", name)
		}
	}
	v, err := d.setting(ctx, "synchronous_commit")
	if err != nil {
		return d.failed(lasting, err)
	}
	if v == "off" {
		return doctor.Fine("synchronous_commit is off, and switched on for what has to last")
	}
	return doctor.Fine("synchronous_commit is %s", v)
}

// checkStandbys says what a failover may lose.
func (d *Doctor) checkStandbys(ctx context.Context) driver.Finding {
	var all, behind int
	if err := d.row(ctx, "SELECT count(*), count(*) FILTER (WHERE sync_state IS NULL OR sync_state = 'async') FROM pg_stat_replication", &all, &behind); err != nil {
		return d.failed(lasting, err)
	}
	sync, err := d.setting(ctx, "synchronous_standby_names")
	switch {
	case err != nil:
		return d.failed(lasting, err)
	case all == 0:
		return doctor.Fine("none")
	case sync == "" && d.made.Version > 0 && !d.made.Unlogged:
		return doctor.Warn("exclusion: a failover may lose grants that the standby has not received, and then two hold a lock",
			"synchronous_standby_names, or tables that are unlogged: they begin empty on the new primary, and nothing is granted for a TTL",
			"%d, none of which the server waits for", all)
	case sync == "":
		return doctor.Warn("values, latches and leases of a fixed time outlast a failover", "synchronous_standby_names", "%d, none of which the server waits for", all)
	}
	return doctor.Fine("%d, %d of which the server does not wait for", all, behind)
}

// checkTimeouts looks for settings that end calls or connections too soon.
func (d *Doctor) checkTimeouts(ctx context.Context) driver.Finding {
	var short []string
	for name, least := range map[string]time.Duration{"statement_timeout": 5 * time.Second, "lock_timeout": time.Second, "transaction_timeout": 5 * time.Second, "idle_session_timeout": time.Minute} {
		var ms int64
		if err := d.row(ctx, "SELECT coalesce((SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = '"+name+"'), 0)", &ms); err != nil {
			return d.failed(speed, err)
		}
		if ms > 0 && time.Duration(ms)*time.Millisecond < least {
			short = append(short, fmt.Sprintf("%s = %dms", name, ms))
		}
	}
	if len(short) > 0 {
		return doctor.Warn("none, but calls that take longer fail and are repeated: a busy server may never get through them",
			"ALTER ROLE … SET these to 0, or to more", "%s", strings.Join(short, ", "))
	}
	return doctor.Fine("no call is ended early")
}

// checkConnections looks at how many there are left.
func (d *Doctor) checkConnections(ctx context.Context) driver.Finding {
	var used, most int
	if err := d.row(ctx, `SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int`, &used, &most); err != nil {
		return d.failed(everyLock, err)
	}
	if used*10 >= most*9 {
		return doctor.Warn(everyLock, "raise max_connections, or have a pooler in between", "%d of %d are used", used, most)
	}
	return doctor.Fine("%d of %d are used", used, most)
}

// checkVacuum looks for what keeps the rows of queues from being cleaned: they are
// changed with every grant.
func (d *Doctor) checkVacuum(ctx context.Context) driver.Finding {
	v, err := d.setting(ctx, "autovacuum")
	if err != nil {
		return d.failed(speed, err)
	}
	if v == "off" {
		return doctor.Warn(speed+": grants and releases slow down with every one that there was", "autovacuum = on", "autovacuum is off")
	}
	var seconds float64
	var pid int
	err = d.row(ctx, `SELECT coalesce(extract(epoch FROM clock_timestamp() - min(xact_start)), 0)::float8, coalesce((pg_catalog.array_agg(pid ORDER BY xact_start))[1], 0)
		FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'`, &seconds, &pid)
	if err != nil {
		return d.failed(speed, err)
	}
	if old := time.Duration(seconds * float64(time.Second)); old > time.Minute {
		return doctor.Warn(speed+": rows that were changed since cannot be cleaned up", "end that transaction (idle_in_transaction_session_timeout)",
			"a transaction of process %d is %v old", pid, doctor.Short(old))
	}
	return doctor.Fine("rows can be cleaned up")
}

// checkClock compares the clock by which leases are measured with ours, by which
// nothing is, but which shows a clock that somebody is going to correct.
func (d *Doctor) checkClock(ctx context.Context) driver.Finding {
	const much = time.Second
	before := time.Now()
	var now int64
	if err := d.row(ctx, "SELECT "+database.NowUS, &now); err != nil {
		return d.failed("exclusion", err)
	}
	ahead, wrong := doctor.Ahead(time.UnixMicro(now), before, time.Now())
	if ahead.Abs()-wrong > much {
		return doctor.Warn("exclusion, if somebody sets the server's clock forward: leases then end earlier, by the step",
			"have NTP keep the clocks of both machines, by slewing, not by steps", "it is %v ± %v ahead of that of this machine", doctor.Short(ahead), doctor.Short(wrong))
	}
	return doctor.Fine("differs from that of this machine by %v ± %v", doctor.Short(ahead), doctor.Short(wrong))
}
