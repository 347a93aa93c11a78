package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/internal/deadline"
	"github.com/interlock-go/interlock/internal/doctor"
)

// examine is for a URL that open refuses. A driver that has no feed can be checked, too.
func examine(ctx context.Context, u *driver.URL) ([]driver.Finding, error) {
	c, o, err := configure(u, "")
	if err != nil {
		return nil, err
	}
	c.options = o
	client, err := c.conns.Client(ctx, o)
	switch {
	case conn.Answered(err):
		return doctor.Examine(ctx, []doctor.Check{doctor.Server(conn.Explain(err), c.remedy)}), nil
	case err != nil:
		return nil, fmt.Errorf("redis: connect to %s: %w", strings.Join(o.InitAddress, ", "), aboutTLS(u, err))
	}
	s := newStore(client, c)
	d := exchange.New(s, s.mailbox) // which listens
	defer d.Close()
	return d.Check(ctx), nil
}

// Check is called for interlock doctor, and for programs that ask whether their backend is fit. In a Cluster each node
// is asked, and those are named that differ.
func (s *store) Check(ctx context.Context) []driver.Finding {
	if err := s.usable(ctx); err != nil {
		return doctor.Examine(ctx, []doctor.Check{doctor.Server(err, s.remedy)})
	}
	nodes := s.askAll(ctx)
	var all []driver.Finding
	of := map[driver.Finding][]string{}
	for _, n := range nodes {
		for _, f := range doctor.Examine(ctx, []doctor.Check{{"server", "it answers", n.checkServer}}, []doctor.Check{
			{"version", "as new as locks need", n.checkVersion},
			{"persistence", "every write is synced before it is answered (appendfsync always)", n.checkPersistence},
			{"memory", "nothing is evicted (noeviction)", n.checkMemory},
			{"replication", "a failover loses no grant, or there is no replica", n.checkReplication},
			{"cluster", "all slots are served", n.checkCluster},
			{"access", "nobody without a password may change keys", n.checkAccess},
			{"configuration", "it can be seen", n.checkVisible},
		}...) {
			if of[f] == nil {
				all = append(all, f)
			}
			of[f] = append(of[f], n.addr)
		}
	}
	for i, f := range all {
		if len(of[f]) < len(nodes) {
			all[i].Check += " of " + strings.Join(of[f], ", ")
		}
	}
	if !slices.ContainsFunc(nodes, func(n *node) bool { return n.err == nil }) {
		return all
	}
	use := doctor.Use(s, s.try, s.remedy)
	exchanges := use[0].Of
	use[0].Of = func(ctx context.Context) driver.Finding { return mayBeNamed(exchanges(ctx)) }
	return append(all, doctor.Examine(ctx, nil, append(use,
		doctor.Check{"clock", "those of the servers and of this machine agree", func(context.Context) driver.Finding { return checkClocks(nodes) }})...)...)
}

// mayBeNamed makes a warning of keys that are refused where the URL has no prefix: the names of locks may have one.
func mayBeNamed(f driver.Finding) driver.Finding {
	if strings.Contains(f.Remedy, " ~* ") {
		return doctor.Warn("the locks whose names the user's rights do not cover", "add ?prefix=PREFIX to the URL, if all names have one, or "+f.Remedy, "a lock called doctor/…: %s", f.Detail)
	}
	return f
}

// refusedCommand is where a server says which command a user may not run.
var refusedCommand = regexp.MustCompile(`run the '([^']+)' command`)

// commands are what locks need, and the doctor; docs/redis.md has the same.
const commands = "+ping +eval +evalsha +subscribe +time +publish +get +set +del +pttl +pexpire +pexpireat +persist +hget +hmget +hset +hdel +hgetall +hlen " +
	"+zadd +zrem +zcard +zscore +zrange +zrangebyscore +zremrangebyscore +scan +info +config|get"

// grant is the statement that gives the user the commands that this URL needs; and keys or channels, if these were
// refused: a pattern cannot be added to a user of all.
func (c *config) grant(err error) string {
	names, rights := c.prefix+c.allNames, ""
	switch {
	case strings.Contains(err.Error(), " channel"):
		rights = "&interlock:* "
	case strings.Contains(err.Error(), " key") && names == "":
		rights = "~* "
	case strings.Contains(err.Error(), " key"):
		rights = "~" + names + "* ~interlock:{" + names + "* "
	}
	rights += commands
	if c.replicas > 0 {
		rights += " +wait"
	}
	if c.options.SelectDB > 0 {
		rights += " +select"
	}
	switch sentinels := c.options.Sentinel.MasterSet != ""; {
	case sentinels:
		rights += " +role"
	case len(c.options.InitAddress) > 1 || strings.Contains(err.Error(), "MOVED "):
		rights += " +cluster|slots +cluster|shards +cluster|info +asking"
	}
	return "ACL SETUSER " + cmp.Or(c.user, "USER") + " " + rights
}

// remedy says what to do about an error of a server; "" if the error names the reason.
func (c *config) remedy(err error) string {
	says := func(part string) bool { return strings.Contains(err.Error(), part) }
	command := refusedCommand.FindStringSubmatch(err.Error())
	switch {
	case command != nil && strings.HasPrefix(command[1], "sentinel"):
		return "on each Sentinel: ACL SETUSER " + cmp.Or(c.sentinelUser, "USER") + " +" + command[1] + "; docs/redis.md has the whole line"
	case says("MOVED "), conn.Forbidden(err):
		return c.grant(err)
	case says("nknown command"), says("nknown Redis command"):
		return "use a server that has this command, and take it out of its rename-command"
	case !conn.Answered(err):
		return "see that the server runs, and that the URL names it"
	}
	return ""
}

// try tries a lock and a value, in a Cluster so many that each node has one.
func (s *store) try(ctx context.Context, tried exchange.Store) error {
	if s.replicas > 0 {
		tried = confirming{s}
	}
	names := 1
	if s.client.Mode() == rueidis.ClientModeCluster {
		names = 8 * len(s.client.Nodes())
	}
	// PTTL is seldom needed: of a lock that is left, by a client that loads our scripts.
	probe := "interlock:{" + s.prefix + s.allNames + "doctor}:t"
	err := s.client.Do(ctx, s.client.B().Eval().Script("return redis.call('PTTL', KEYS[1])").Numkeys(1).Key(probe).Build()).Error()
	if err != nil {
		return s.Explain(err)
	}
	for ; err == nil && names > 0; names-- {
		var name string
		if name, err = doctor.TryAs(ctx, tried, exchange.NewMailbox(), s.allNames); err != nil {
			err = fmt.Errorf("%w%s", err, s.servedBy(ctx, name))
		}
	}
	return err
}

// servedBy names the node of a Cluster that keeps a name.
func (s *store) servedBy(ctx context.Context, name string) string {
	for addr, client := range s.client.Nodes() {
		err := client.Do(ctx, client.B().Get().Key("interlock:{"+s.prefix+name+"}:t").Build()).Error()
		if e, ok := rueidis.IsRedisErr(err); s.client.Mode() == rueidis.ClientModeCluster && (!ok || !strings.HasPrefix(e.Error(), "MOVED")) {
			return " (on " + addr + ")"
		}
	}
	return ""
}

// node is what a server says of itself.
type node struct {
	*store
	addr         string
	at           rueidis.Client
	err          error             // it cannot be asked for anything
	info, config map[string]string // the answers of INFO and CONFIG GET
	hidden       error             // what it refuses to say
	clock        doctor.Reading
}

// askAll asks all nodes at once. Each may take five seconds.
func (s *store) askAll(ctx context.Context) []*node {
	var all []*node
	var asked sync.WaitGroup
	clients := s.client.Nodes()
	for _, addr := range slices.Sorted(maps.Keys(clients)) {
		n := &node{store: s, addr: addr, at: clients[addr]}
		all = append(all, n)
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if err := n.ask(ctx); err != nil {
				n.err = cmp.Or(context.Cause(ctx), deadline.Err(ctx), s.Explain(err))
			}
		})
	}
	asked.Wait()
	return all
}

// ask fails if the node does not answer. What it refuses stays unknown.
func (n *node) ask(ctx context.Context) error {
	do := func(words ...string) rueidis.RedisResult {
		n.exchanges.Add(1)
		return n.at.Do(ctx, n.at.B().Arbitrary(words...).Build())
	}
	began := time.Now()
	at, err := do("TIME").AsIntSlice()
	if err != nil && !conn.Refused(err) {
		return err
	}
	if len(at) == 2 {
		n.clock = doctor.Ahead(n.addr, time.Unix(at[0], at[1]*1000), began, time.Now())
	}
	text, unseen := do("INFO").ToString()
	n.info = lines(text)
	n.config = map[string]string{}
	for _, settings := range []string{"*appendfsync*", "save"} {
		var m map[string]string
		m, err = do("CONFIG", "GET", settings).AsStrMap()
		maps.Copy(n.config, m)
	}
	n.hidden = errors.Join(unseen, err)
	return nil
}

// lines reads the answer of INFO and its like.
func lines(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // its type, in RESP3
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[k] = v
		}
	}
	return all
}

func (n *node) checkServer(context.Context) driver.Finding {
	if n.err == nil && n.info["loading"] == "1" { // some answer meanwhile what needs no data
		return doctor.Answer(errors.New("LOADING: it reads its data"), n.remedy)
	}
	return doctor.Answer(n.err, n.remedy)
}

func (n *node) checkVisible(context.Context) driver.Finding {
	if n.hidden == nil {
		return doctor.Sound
	}
	return doctor.Warn("those that depend on what cannot be seen", n.grant(n.hidden)+"; or look yourself",
		"INFO or CONFIG GET (persistence, replicas, memory) cannot be seen: %s", strings.ReplaceAll(n.hidden.Error(), "\n", "; "))
}

func (n *node) checkVersion(context.Context) driver.Finding {
	const use = "use Redis 6.2 or later, or Valkey"
	for _, product := range []string{"dragonfly", "keydb", "garnet", "kvrocks"} {
		if n.info[product+"_version"] != "" {
			return doctor.Warn("all: they are tested with Redis and Valkey", use, "the server is %s", product)
		}
	}
	if v := n.info["redis_version"]; doctor.Older(v, 6, 2) {
		return doctor.Fail(doctor.EveryLock, use, "Redis %s does not have SET with GET and PXAT", v)
	}
	return doctor.Sound
}

// checkPersistence says what is lost with the server, which frees locks that are held.
func (n *node) checkPersistence(context.Context) driver.Finding {
	set := func(name string) string { return name + "=" + cmp.Or(n.config[name], "(not set, or cannot be seen)") }
	settings := strings.Join([]string{set("appendfsync"), set("no-appendfsync-on-rewrite"), set("save")}, ", ")
	switch {
	case n.info["aof_enabled"] == "":
		return driver.Finding{} // see checkVisible
	case n.info["aof_enabled"] == "0":
		settings = "appendonly=no, " + set("save")
	case n.config["appendfsync"] == "always" && n.config["no-appendfsync-on-rewrite"] != "yes":
		return doctor.Sound
	}
	return doctor.Warn("exclusion, when the server comes back without its last writes: who holds is forgotten, and is told by its next heartbeat only; values are lost too",
		"set appendonly to yes, appendfsync to always and no-appendfsync-on-rewrite to no, or let it start again no sooner than the longest TTL after its end",
		"a crash loses what is not on the disk (%s)", settings)
}

// checkMemory sees that the server does not drop locks.
func (n *node) checkMemory(context.Context) driver.Finding {
	policy := n.info["maxmemory_policy"]
	if policy == "" {
		return driver.Finding{} // see checkVisible
	}
	if policy == "noeviction" {
		return doctor.Sound
	}
	f := doctor.Warn(doctor.Exclusion+": when memory is short (as soon as maxmemory is set) the server drops locks that are held, and values",
		"set maxmemory-policy to noeviction, and keep caches in a server of their own", "maxmemory-policy is %s", policy)
	if n.info["maxmemory"] != "0" {
		f.Status = driver.Fail
	}
	return f
}

// checkReplication says what a failover may lose. Whether enough replicas are there for grants, the exchanges say.
func (n *node) checkReplication(context.Context) driver.Finding {
	if n.info["role"] != "master" { // another one is, or see checkVisible
		if n.info["role"] == "" || n.client.Mode() == rueidis.ClientModeCluster {
			return driver.Finding{}
		}
		return doctor.Fail(doctor.EveryLock+"; or, if it takes writes, exclusion: its master does not know of them",
			"name the master, or the Sentinels and ?master=NAME", "it is a replica of %s:%s", n.info["master_host"], n.info["master_port"])
	}
	online, late := 0, ""
	for i := 0; n.info["slave"+strconv.Itoa(i)] != ""; i++ { // ip=…,port=…,state=online,offset=…,lag=seconds
		f := lines(strings.NewReplacer(",", "\n", "=", ":").Replace(n.info["slave"+strconv.Itoa(i)]))
		lag, _ := strconv.Atoi(f["lag"])
		if f["state"] == "online" {
			online++
		}
		if f["state"] != "online" || lag > 10 {
			late += fmt.Sprintf("; %s:%s is %s, and was heard of %d s ago", f["ip"], f["port"], f["state"], lag)
		}
	}
	const promise = "exclusion, after a failover: a holder whose grant the new master has not received is forgotten, and is told by its next heartbeat only"
	switch {
	case late != "":
		return doctor.Warn(promise, "look at the replicas and their network", "%s", late[2:])
	case online < n.replicas:
		return doctor.Fail(doctor.EveryLock, "connect more replicas, or lower replicas in the URL", "%d in sync, and the URL says replicas=%d", online, n.replicas)
	case online > 0 && n.replicas == 0:
		return doctor.Warn(promise, "add ?replicas=1 (or more) to the URL: a grant then counts when so many replicas have it; and set min-replicas-to-write, so that a master that is cut off stops granting",
			"asynchronous: %d in sync", online)
	case online == 0 && n.client.Mode() != rueidis.ClientModeStandalone:
		return doctor.Warn("that locks go on when the master dies: nobody can take its place", "connect a replica", "no replica")
	}
	return doctor.Sound
}

func (n *node) checkCluster(ctx context.Context) driver.Finding {
	if n.client.Mode() != rueidis.ClientModeCluster {
		return driver.Finding{}
	}
	text, err := n.at.Do(ctx, n.at.B().ClusterInfo().Build()).ToString()
	if err == nil { // which clients say that are sent to a slot that is moved
		err = n.at.Do(ctx, n.at.B().Asking().Build()).Error()
	}
	info := lines(text)
	masters, _ := strconv.Atoi(info["cluster_size"])
	switch {
	case err != nil:
		return doctor.Warn("locks whose slot is not served, or is moved", n.remedy(err), "%v", err)
	case info["cluster_state"] != "ok" || info["cluster_slots_ok"] != "16384":
		return doctor.Fail("every lock whose slot is not served: with cluster-require-full-coverage all", "start the master again, or have a replica take its place; then redis-cli --cluster check, and --cluster fix",
			"cluster_state is %s, %s of 16384 slots are served", info["cluster_state"], info["cluster_slots_ok"])
	case masters < 3:
		return doctor.Warn("that locks go on when a master dies: the others are not the majority that a failover needs", "use three masters or more", "%d masters with slots", masters)
	}
	return doctor.Sound
}

// checkAccess tries to remove a key that is not there, without a password.
func (n *node) checkAccess(ctx context.Context) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	o := n.options
	if len(o.InitAddress) == 0 {
		return driver.Finding{} // the program's own client does not tell how to connect
	}
	o.InitAddress, o.ForceSingleClient, o.SelectDB = []string{n.addr}, true, 0
	o.Username, o.Password, o.AuthCredentialsFn, o.Sentinel = "", "", nil, rueidis.SentinelOption{}
	if o.TLSConfig != nil {
		o.TLSConfig = o.TLSConfig.Clone()
		o.TLSConfig.Certificates, o.TLSConfig.GetClientCertificate = nil, nil
	}
	var conns conn.Set
	defer conns.Close()
	stranger, err := conns.Client(ctx, o)
	if err != nil {
		return doctor.Sound
	}
	defer stranger.Close()
	if err = stranger.Do(ctx, stranger.B().Del().Key("interlock:{doctor}:t").Build()).Error(); err != nil && !strings.HasPrefix(err.Error(), "MOVED") {
		return doctor.Sound
	}
	return doctor.Warn(doctor.Strangers,
		"give locks a user of their own (docs/redis.md), and the others a password: ACL SETUSER default resetpass >PASSWORD; or let nobody else reach the server",
		"everybody who reaches the server may change keys: the user default has no password")
}

// checkClocks compares the clocks of all nodes, since a failover or a move of a slot changes the clock, and that of
// this machine.
func checkClocks(nodes []*node) driver.Finding {
	var all []doctor.Reading
	for _, n := range nodes {
		if n.clock.Wrong != 0 {
			all = append(all, n.clock)
		}
	}
	if len(all) == 0 {
		return driver.Finding{}
	}
	if differ, text := doctor.Apart(all); differ > 100*time.Millisecond {
		f := doctor.Warn("exclusion, when a lock moves to another node by a failover or a move of its slot: its lease ends earlier there, by the difference", doctor.Slewing, "%s", text)
		if differ > time.Second {
			f.Status = driver.Fail
		}
		return f
	}
	return all[0].Differs(doctor.Forward)
}
