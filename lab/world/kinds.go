package world

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/interlock-go/interlock/backend/etcdlock"
	_ "github.com/interlock-go/interlock/backend/filelock"
	_ "github.com/interlock-go/interlock/backend/memlock"
	_ "github.com/interlock-go/interlock/backend/mysqllock"
	_ "github.com/interlock-go/interlock/backend/pglock"
	_ "github.com/interlock-go/interlock/backend/quorumlock"
	_ "github.com/interlock-go/interlock/backend/redislock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	_ "github.com/interlock-go/interlock/backend/zklock"

	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Kinds are all backends that can be tested.
var Kinds = []Kind{
	{"sqlite", "one SQLite file", func(w *World, t testing.TB) { w.path("sqlite:" + filepath.Join(t.TempDir(), "db")) }, true},
	{"file", "a folder of lock files", func(w *World, t testing.TB) { w.path("file:" + t.TempDir()) }, true},
	{"redis", "one server of Redis, which waits for its disk", startRedis, true},
	{"sentinel", "a master and a replica of Redis, watched by three Sentinels", startSentinel, false},
	{"cluster", "a Redis Cluster of three masters, each with a replica", startCluster, false},
	{"zookeeper", "one server of ZooKeeper", startZooKeeper, true},
	{"ensemble", "three servers of ZooKeeper", startEnsemble, true},
	{"etcd", "one member of etcd", startEtcd, true},
	{"etcd3", "three members of etcd", startEtcd3, true},
	{"postgres", "one server of PostgreSQL, with unlogged tables", startPostgres, true},
	{"standby", "PostgreSQL with a standby, which takes over once", startStandby, false},
	{"mariadb", "one server of MariaDB", startMariaDB, true},
	{"replica", "MariaDB with a replica, which takes over once", startReplica, false},
	{"quorum3", "a quorum of three servers of Redis", startQuorum(3), true},
	{"quorum5", "a quorum of five servers of Redis", startQuorum(5), true},
}

func startRedis(w *World, t testing.TB) {
	s := redistest.Start(t, redistest.Durable(), redistest.FakeTime(0))
	w.Servers = []Server{s}
	w.through([]string{s.Addr}, "redis://%s")
	w.StepClock = s.StepClock
	w.Special = []Special{
		{"connections", false, func() func() { s.KillConnections("normal"); s.KillConnections("pubsub"); return nil }},
		{"scripts", false, func() func() { s.FlushScripts(); return nil }},
		{"full", false, func() func() {
			_, _ = s.Do("CONFIG", "SET", "maxmemory", "1")
			return func() { _, _ = s.Do("CONFIG", "SET", "maxmemory", "0") }
		}},
	}
	w.Left = func() (left []string) {
		for _, key := range s.Keys() {
			// docs/redis.md: nothing stays, except …
			stays := strings.Contains(key, "{resized/") || strings.Contains(key, "{barrier/")
			if ttl, err := s.Do("PTTL", key); err == nil && ttl == int64(-1) && !stays {
				left = append(left, key)
			}
		}
		return left
	}
}

func startSentinel(w *World, t testing.TB) {
	s := redistest.StartSentinel(t, redistest.Durable(), redistest.Proxied())
	w.path("redis://" + strings.Join(s.SentinelAddrs(), ",") + "?master=" + s.Name)
	w.Servers = servers(s.Nodes)
	for i, p := range s.Proxies {
		w.Links = append(w.Links, Link{p.Proxy, -1, i, nil})
	}
	lose := func(down, up func(*redistest.Server)) func() func() {
		return func() (end func()) {
			old := s.Master()
			down(old)
			s.WaitFailover(old)
			return func() { up(old); busy.Until(t, "the old master is a replica", s.Whole) }
		}
	}
	w.Special = []Special{
		{"failover", true, lose((*redistest.Server).Kill, (*redistest.Server).Restart)},
		{"frozen-master", true, lose((*redistest.Server).Pause, (*redistest.Server).Resume)},
	}
}

func startCluster(w *World, t testing.TB) {
	c := redistest.StartCluster(t, 3, redistest.Durable(), redistest.Replicas(1),
		redistest.Config("cluster-node-timeout", "1500"))
	w.path("redis://" + strings.Join(c.Addrs(), ","))
	w.Servers = servers(c.Nodes)
	w.Loses = true
}

func startZooKeeper(w *World, t testing.TB) {
	s := zktest.Start(t, zktest.Durable())
	w.Late = 10
	w.Servers = []Server{s}
	w.through([]string{s.Addr}, "zk://%s/lab")
	w.Left = func() []string {
		if n := s.Figure("ephemerals_count"); n > 0 {
			return []string{fmt.Sprint(n, " ephemeral nodes")}
		}
		return nil
	}
}

func startEnsemble(w *World, t testing.TB) {
	e := zktest.StartEnsemble(t, 3, zktest.Durable())
	w.Late = 10
	w.Servers = servers(e.Servers)
	w.through(e.Addrs(), "zk://%s/lab")
	w.Leader = func() Server { return e.Leader() }
	w.Special = []Special{{"freeze", false, func() func() {
		s := e.Leader()
		e.Freeze(s)
		return func() { e.Thaw(s); e.Leader() }
	}}}
}

func startEtcd(w *World, t testing.TB) {
	s := etcdtest.Start(t)
	w.Servers = []Server{s}
	w.through([]string{s.Addr}, "etcd://%s/lab")
	w.Left = leases(s)
}

// leases names the leases of sessions that etcd has. Longer ones keep what is to be remembered for a while.
func leases(s *etcdtest.Server) func() []string {
	return func() (left []string) {
		for _, id := range strings.Fields(s.Ctl("lease", "list"))[3:] {
			about := s.Ctl("lease", "timetolive", "--keys", id)
			var ttl int
			_, granted, _ := strings.Cut(about, "granted with TTL(")
			_, _ = fmt.Sscanf(granted, "%ds", &ttl)
			if ttl < 60 && !strings.Contains(about, "already expired") {
				left = append(left, about)
			}
		}
		return left
	}
}

func startEtcd3(w *World, t testing.TB) {
	c := etcdtest.StartCluster(t, 3)
	w.Servers = servers(c.Servers)
	w.through(c.Addrs(), "etcd://%s/lab")
	w.Leader = func() Server { return c.Leader() }
	w.Left = leases(c.Servers[0])
	w.Special = []Special{
		{"disk", false, func() func() { return c.Leader().StickDisk() }},
		{"revoked", false, func() func() {
			s := c.Servers[0]
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			out, _ := s.Command(ctx, "lease", "list").Output()
			if ids := strings.Fields(string(out)); len(ids) > 3 {
				_ = s.Command(ctx, "lease", "revoke", ids[3]).Run()
			}
			return nil
		}},
	}
}

func startPostgres(w *World, t testing.TB) {
	s := pgtest.Start(t, pgtest.Durable(), pgtest.FakeTime())
	w.Servers = []Server{s}
	w.through([]string{s.Addr}, strings.Replace(s.URL(), s.Addr, "%s", 1))
	w.StepClock = s.StepClock
	w.Slow = 20 * time.Second
	w.Special = []Special{{"connections", false, func() func() { s.Terminate("true"); return nil }}}
}

func startStandby(w *World, t testing.TB) {
	s := pgtest.Start(t)
	standby := pgtest.StartStandby(t, s)
	w.Servers = []Server{s}
	w.through([]string{s.Addr, standby.Addr}, strings.Replace(s.URL(), s.Addr, "%s", 1))
	w.Slow = 20 * time.Second
	w.Special = []Special{w.once("failover", false, func() Server {
		s.Kill()
		standby.Promote()
		return standby
	})}
}

// once is a failover that cannot be repeated: another server takes the place of the first one.
func (w *World) once(name string, loses bool, do func() (next Server)) Special {
	var failover sync.Once
	return Special{name, loses, func() func() {
		failover.Do(func() { w.Servers = []Server{do()} })
		return nil
	}}
}

func startMariaDB(w *World, t testing.TB) {
	s := mysqltest.Start(t, mysqltest.Synced())
	w.Servers = []Server{s}
	w.through([]string{s.Addr}, strings.Replace(s.URL(), s.Addr, "%s", 1))
	w.Special = []Special{{"connections", false, func() func() { s.KillConnections("user = 'app'"); return nil }}}
}

func startReplica(w *World, t testing.TB) {
	primary := mysqltest.Primary(t)
	replica := mysqltest.Replica(t, primary)
	w.Servers = []Server{primary}
	w.through([]string{primary.Addr, replica.Addr}, strings.Replace(primary.URL(), primary.Addr, "%s", 1))
	w.Special = []Special{w.once("failover", true, func() Server {
		primary.Kill()
		replica.Promote()
		return promoted{replica}
	})}
}

// promoted is a replica that took over. Its configuration makes it read-only again.
type promoted struct{ *mysqltest.Server }

func (s promoted) Restart() {
	s.Server.Restart()
	s.Promote()
}

func startQuorum(n int) func(*World, testing.TB) {
	return func(w *World, t testing.TB) {
		var addrs []string
		for range n {
			s := redistest.Start(t, redistest.Durable())
			w.Servers = append(w.Servers, s)
			addrs = append(addrs, s.Addr)
		}
		w.through(addrs, "%s")
		quorum := func(list string) string {
			var members []string
			for addr := range strings.SplitSeq(list, ",") {
				members = append(members, "member="+url.QueryEscape("redis://"+addr))
			}
			return "quorum:?" + strings.Join(members, "&")
		}
		direct, to := w.Direct, w.URL
		w.Direct = quorum(direct)
		w.URL = func(c int) string { return quorum(to(c)) }
		w.Rich, w.Mixes = false, true
	}
}
