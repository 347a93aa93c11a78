package doctor

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor"
)

func (d *Doctor) checkServer(_ context.Context, n *node) driver.Finding {
	if n.err != nil {
		return unreachable(n.err)
	}
	return doctor.Trip(n.trip)
}

// lacks is what is missed in a server of an older version.
var lacks = []struct {
	major, minor int
	what         string
}{
	{6, 0, "RESP3, by which news and answers share a connection, KEEPTTL and users with rights"},
	{6, 2, "SET with GET and PXAT"},
}

func (d *Doctor) checkVersion(_ context.Context, n *node) driver.Finding {
	product, version := "Redis", cmp.Or(n.hello["version"], n.info["redis_version"])
	for key, value := range n.info {
		switch name, ok := strings.CutSuffix(key, "_version"); {
		case !ok:
		case name == "valkey":
			product, version = "Valkey", value
		case name == "dragonfly", name == "keydb", name == "garnet", name == "kvrocks":
			product, version = strings.ToUpper(name[:1])+name[1:], value
		}
	}
	if s := n.hello["server"]; s != "" && s != "redis" && product == "Redis" {
		product = strings.ToUpper(s[:1]) + s[1:]
	}
	const upgrade = "use Redis 6.2 or later, or Valkey"
	if product != "Redis" && product != "Valkey" {
		return doctor.Warn("all: they are tested with Redis", upgrade, "%s %s", product, version)
	}
	if version == "" {
		return doctor.Warn("every lock, if it is too old", upgrade, "the server does not say its version")
	}
	major, minor := parseVersion(version)
	var missing []string
	for _, l := range lacks {
		if major < l.major || major == l.major && minor < l.minor {
			missing = append(missing, l.what)
		}
	}
	if len(missing) > 0 {
		return doctor.Fail(everyLock, upgrade, "%s %s does not have %s", product, version, strings.Join(missing, ", nor "))
	}
	return doctor.Fine("%s %s", product, version)
}

func parseVersion(s string) (major, minor int) {
	parts := strings.SplitN(s, ".", 3)
	major, _ = strconv.Atoi(strings.TrimPrefix(parts[0], "v"))
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

func (n *node) mode() string { return cmp.Or(n.hello["mode"], n.info["redis_mode"]) }

// takenFor reports whether the client takes the server for what it is.
func (d *Doctor) takenFor(n *node) bool {
	return n.mode() != "sentinel" && (n.mode() != "cluster" || d.Redis.Mode() == rueidis.ClientModeCluster)
}

func (d *Doctor) checkMode(_ context.Context, n *node) driver.Finding {
	switch own := d.Redis.Mode(); {
	case n.mode() == "sentinel":
		return doctor.Fail(everyLock, "add ?master=NAME to the URL, the name by which the Sentinels know the master",
			"this is a Sentinel, which keeps no data")
	case !d.takenFor(n):
		return doctor.Fail(everyLock, grant(d.User, "+cluster|slots", "+cluster|shards"),
			"it is a node of a Cluster, but the client was not told when it asked for the slots")
	case own == rueidis.ClientModeCluster:
		return doctor.Fine("a Cluster")
	case n.isReplica():
		return doctor.Fail(everyLock+"; or, if it takes writes, exclusion: its master does not know of them",
			"name the master, or the Sentinels and ?master=NAME",
			"it is a replica of %s:%s", n.info["master_host"], n.info["master_port"])
	case own == rueidis.ClientModeSentinel:
		return doctor.Fine("the master %s, named by Sentinels", n.addr)
	}
	return doctor.Fine("one server")
}
