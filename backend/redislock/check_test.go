package redislock_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

func examine(t *testing.T, url string) doctortest.Report {
	t.Helper()
	d := errtest.Must(openURL(t.Context(), url))(t)
	defer d.Close()
	return doctortest.Examine(t, t.Context(), d)
}

// hasOfSome is Has of a check in which nodes may differ: each learns at another time what has become of the Cluster.
func hasOfSome(e doctortest.Report, check string, status driver.Status, words string) {
	e.T.Helper()
	for _, f := range e.All {
		if (f.Check == check || strings.HasPrefix(f.Check, check+" of ")) && f.Status == status && strings.Contains(f.Detail, words) {
			return
		}
	}
	e.T.Errorf("no finding %s: %s with %q among %+v", status, check, words, e.All)
}

func TestCheckOfConfigurations(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := "redis://" + s.Addr
	for _, c := range []struct {
		settings []string // key=value
		options  string
		check    string
		status   driver.Status
		words    []string
		fails    []string // other checks
	}{
		{nil, "", "server", driver.OK, nil, nil},
		{nil, "", "version", driver.OK, nil, nil},
		{nil, "", "exchanges", driver.OK, nil, nil},
		{nil, "", "clock", driver.OK, nil, nil},

		{nil, "", "persistence", driver.Warn, []string{"appendonly=no", "save=(not set", "exclusion"}, nil},
		{[]string{"save=3600 1"}, "", "persistence", driver.Warn, []string{"appendonly=no", "save=3600 1"}, nil},
		{[]string{"appendonly=yes", "appendfsync=no"}, "", "persistence", driver.Warn, []string{"appendfsync=no,"}, nil},
		{[]string{"appendonly=yes", "appendfsync=everysec"}, "", "persistence", driver.Warn, []string{"appendfsync=everysec"}, nil},
		{[]string{"appendonly=yes", "appendfsync=always"}, "", "persistence", driver.OK, []string{"always"}, nil},
		{[]string{"appendonly=yes", "appendfsync=always", "no-appendfsync-on-rewrite=yes"}, "", "persistence", driver.Warn, []string{"no-appendfsync-on-rewrite=yes"}, nil},

		{nil, "", "memory", driver.OK, nil, nil},
		{[]string{"maxmemory=1gb"}, "", "memory", driver.OK, []string{"noeviction"}, nil},
		{[]string{"maxmemory-policy=allkeys-lru"}, "", "memory", driver.Warn, []string{"allkeys-lru", "exclusion"}, nil},
		{[]string{"maxmemory-policy=volatile-ttl"}, "", "memory", driver.Warn, []string{"volatile-ttl", "exclusion"}, nil},
		{[]string{"maxmemory-policy=allkeys-lru", "maxmemory=1gb"}, "", "memory", driver.Fail, []string{"allkeys-lru", "exclusion"}, nil},
		{[]string{"maxmemory=100kb"}, "", "exchanges", driver.Fail, []string{"OOM"}, nil},

		{nil, "", "replication", driver.OK, []string{"no replica"}, nil},
		{nil, "?replicas=1", "replication", driver.Fail, []string{"0 in sync", "replicas=1"}, []string{"exchanges"}},
		{nil, "?replicas=1", "exchanges", driver.Fail, []string{"acquire a lock"}, []string{"replication"}},
		{nil, "", "access", driver.Warn, []string{"the user default has no password", "exclusion"}, nil},
		{[]string{"requirepass=secret"}, "", "access", driver.OK, nil, nil},
		{[]string{"min-replicas-to-write=1"}, "", "exchanges", driver.Fail, []string{"NOREPLICAS"}, nil},
	} {
		t.Run(c.check+" "+string(c.status)+" "+strings.Join(c.settings, " ")+c.options, func(t *testing.T) {
			for _, setting := range c.settings {
				key, value, _ := strings.Cut(setting, "=")
				old := errtest.Must(s.Do("CONFIG", "GET", key))(t)
				defer configure(t, s, key, fmt.Sprint(old.([]any)[1]))
				configure(t, s, key, value)
			}
			at := url
			if slices.Contains(c.settings, "requirepass=secret") {
				at = "redis://:secret@" + s.Addr
			}
			e := examine(t, at+c.options)
			e.Has(c.check, c.status, c.words...)
			e.Fit(append(c.fails, c.check)...)
		})
	}
	for _, key := range s.Keys() {
		if left, err := s.Do("PTTL", key); err != nil || fmt.Sprint(left) == "-1" {
			t.Errorf("Check has left %q for ever: %v", key, err)
		}
	}
}

func TestCheckOfReplicas(t *testing.T) {
	t.Parallel()
	master, replica := replicated(t)
	e := examine(t, "redis://"+master.Addr)
	e.Has("replication", driver.Warn, "asynchronous", "1 in sync", "?replicas=1")
	examine(t, "redis://"+master.Addr+"?replicas=1").Has("replication", driver.OK)
	examine(t, "redis://"+master.Addr+"?replicas=2").Has("replication", driver.Fail, "1 in sync", "lower replicas in the URL")
	examine(t, "redis://"+replica.Addr).Has("replication", driver.Fail, "a replica of 127.0.0.1:"+strconv.Itoa(master.Port))

	replica.Kill()
	busy.Until(t, "the replica is given up", func() bool {
		info, err := master.Do("INFO", "replication")
		return err == nil && strings.Contains(fmt.Sprint(info), "connected_slaves:0")
	})
	examine(t, "redis://"+master.Addr+"?replicas=1").Has("replication", driver.Fail, "replicas=1")
}

// What the user may not see is a warning, what it may not do a failure.
func TestCheckWithoutRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all := []string{"on", ">secret", "~*", "&*", "+@all"}
	e := examine(t, withRights(t, s, append(all, "-config")...))
	e.Has("configuration", driver.Warn, "CONFIG GET", "NOPERM", "+config|get")
	e.Has("memory", driver.OK)
	e.Has("persistence", driver.Warn, "cannot be seen")
	e.Fit()
	e = examine(t, withRights(t, s, append(all, "-config", "-info")...))
	e.Has("configuration", driver.Warn, "INFO", "CONFIG GET", "+info")
	e.Fit()
	e = examine(t, withRights(t, s, append(all, "-scan")...))
	e.Has("listing", driver.Warn, "interlock ls", "+scan")
	e.Fit()
	e = examine(t, withRights(t, s, append(all, "resetkeys", "~interlock:*", "~other/*")...))
	e.Has("exchanges", driver.Fail, "~app/app/*") // the tests keep drivers apart by a second prefix
	url := withRights(t, s, append(all, "resetkeys", "~interlock:*", "~app/*")...)
	e = examine(t, strings.TrimSuffix(url, "?prefix=app/"))
	e.Has("exchanges", driver.Warn, "?prefix=PREFIX")

	renamed := redistest.Start(t, redistest.Config("rename-command", "ZADD", ""), redistest.Config("rename-command", "CONFIG", ""))
	e = examine(t, "redis://"+renamed.Addr)
	e.Has("exchanges", driver.Fail, "rename-command")
	e.Has("configuration", driver.Warn, "CONFIG GET")
}

// What the doctor grants, what scripts call and what is documented as a right is the same.
func TestCheckTriesEveryCommand(t *testing.T) {
	words := func(pattern string, paths ...string) []string {
		t.Helper()
		var all []string
		for _, path := range paths {
			text := errtest.Must(os.ReadFile(path))(t)
			for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
				all = append(all, strings.ToLower(string(m[1])))
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	scripts := errtest.Must(filepath.Glob("lua/*.lua"))(t)
	called := words(`call\('(\w+)'`, append(scripts, "script.go")...)
	var rights []string
	for _, right := range documentedRights(t).base {
		name, ok := strings.CutPrefix(right, "+")
		if ok && !slices.Contains([]string{"ping", "eval", "evalsha", "subscribe"}, name) {
			rights = append(rights, name)
		}
	}
	slices.Sort(rights)
	if !slices.Equal(rights, called) {
		t.Errorf("scripts call %q, docs/redis.md gives %q", called, rights)
	}
	granted := words(`(\+[a-z|]+)[ "]`, "check.go")
	for _, right := range documentedRights(t).with(t, "interlock ls", "interlock doctor", "a Cluster", "interlock doctor in a Cluster", "Sentinels", "?replicas=n", "a database other than 0") {
		if right[0] == '+' && !slices.Contains(granted, right) {
			t.Errorf("docs/redis.md gives %s, and the doctor does not", right)
		}
	}
}

func TestCheckOfAServerThatIsGone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := errtest.Must(openURL(t.Context(), "redis://"+s.Addr+"?"+patient))(t)
	defer d.Close()
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	doctortest.Examine(t, ctx, d).Has("server", driver.Fail, "deadline")
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	doctortest.Examine(t, ctx, d).Has("server", driver.Fail, "context") // its own, or that of the call before
	inTime(t, "Check with a context that ended after 50ms", began, nil)
	s.Resume()
	s.Kill()
	e := doctortest.Examine(t, t.Context(), d)
	e.Has("server", driver.Fail, "every lock", "see that the server runs")
	if len(e.All) != 1 {
		t.Errorf("a dead server has told %+v", e.All)
	}
	s.Restart()
	busy.Until(t, "it is well again", func() bool { return d.Check(t.Context())[0].Status == driver.OK })
}

func TestCheckOfAWrongClock(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("on Linux only")
	}
	s := redistest.Start(t, redistest.FakeTime(-3500*time.Millisecond))
	examine(t, "redis://"+s.Addr).Has("clock", driver.Warn, "-3.", "set forward")
}

func TestInACluster(t *testing.T) {
	t.Parallel()
	// Long: a node whose clock is stepped has waited that much longer for the others.
	opts := []redistest.Option{redistest.Config("cluster-node-timeout", "60000")}
	if runtime.GOOS == "linux" {
		opts = append(opts, redistest.FakeTime(0))
	}
	c := redistest.StartCluster(t, 3, opts...)
	t.Run("least rights", func(t *testing.T) { leastRightsInACluster(t, c) })
	t.Run("missing rights", func(t *testing.T) { missingInACluster(t, c) })
	t.Run("check", func(t *testing.T) { checkOfACluster(t, c) })
}

func checkOfACluster(t *testing.T, c *redistest.Cluster) {
	first, second, third := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	url := "redis://" + strings.Join(c.Addrs(), ",")
	everywhere := func(args ...string) {
		t.Helper()
		for _, s := range c.Nodes {
			errtest.Must(s.Do(args...))(t)
		}
	}
	e := examine(t, url)
	e.Has("cluster", driver.OK)
	e.Has("replication", driver.Warn, "no replica")
	e.Has("server", driver.OK)
	e.Has("exchanges", driver.OK)
	e.Fit()

	if runtime.GOOS == "linux" {
		second.StepClock(2500 * time.Millisecond)
		e = examine(t, url)
		e.Has("clock", driver.Fail, second.Addr+" is 2.", "slewing")
		e.Fit("clock")
		second.StepClock(-2500 * time.Millisecond)
	}

	configure(t, third, "maxmemory-policy", "allkeys-lru")
	e = examine(t, url)
	e.Has("memory of "+third.Addr, driver.Warn, "allkeys-lru")
	configure(t, third, "maxmemory-policy", "noeviction")

	// Rights are each node's own.
	everywhere("ACL", "SETUSER", "u", "on", ">secret", "~*", "&*", "+@all")
	errtest.Must(second.Do("ACL", "SETUSER", "u", "-zadd"))(t)
	asUser := strings.Replace(url, "//", "//u:secret@", 1)
	e = examine(t, asUser)
	e.Has("exchanges", driver.Fail, "+zadd", "(on "+second.Addr+")")
	e.Fit("exchanges")
	everywhere("ACL", "SETUSER", "u", "+zadd", "-cluster|info")
	examine(t, asUser).Has("cluster", driver.Warn, "+cluster|info")
	everywhere("ACL", "SETUSER", "u", "-cluster")
	examine(t, "redis://u:secret@"+first.Addr).Has("exchanges", driver.Fail, "+cluster|slots")

	// A slot that nobody serves.
	everywhere("CONFIG", "SET", "cluster-require-full-coverage", "no")
	unserved := func(left string, slots ...string) {
		t.Helper()
		// A node that hears from the owner just after it was told believes the owner.
		busy.Until(t, fmt.Sprintf("the slots %v are unserved", slots), func() bool {
			all := true
			for _, s := range c.Nodes {
				for _, slot := range slots {
					_, _ = s.Do("CLUSTER", "DELSLOTS", slot) // refused where it is unserved already
				}
				info, err := s.Do("CLUSTER", "INFO")
				all = all && err == nil && strings.Contains(fmt.Sprint(info), "cluster_slots_assigned:"+left)
			}
			return all
		})
	}
	unserved("16383", "100")
	e = examine(t, url)
	hasOfSome(e, "cluster", driver.Fail, "of 16384 slots")
	for _, f := range e.All { // maybe a name that was tried was there
		if f.Status == driver.Fail && !strings.HasPrefix(f.Check, "cluster") && f.Check != "exchanges" {
			t.Errorf("%+v", f)
		}
	}
	everywhere("CONFIG", "SET", "cluster-require-full-coverage", "yes")
	unserved("16382", "100", "101") // they look at the setting again
	busy.Until(t, "all nodes stop", func() bool {
		for _, s := range c.Nodes {
			if info, err := s.Do("CLUSTER", "INFO"); err != nil || !strings.Contains(fmt.Sprint(info), "cluster_state:fail") {
				return false
			}
		}
		return true
	})
	hasOfSome(examine(t, url), "cluster", driver.Fail, "cluster_state is fail")
	everywhere("CONFIG", "SET", "cluster-require-full-coverage", "no")

	d := errtest.Must(openURL(t.Context(), url))(t)
	defer d.Close()
	everywhere("CONFIG", "SET", "cluster-node-timeout", "500")
	third.Kill()
	busy.Until(t, "the others notice", func() bool {
		gone := regexp.MustCompile(`:` + strconv.Itoa(third.Port) + `\S* master,fail `)
		for _, s := range []*redistest.Server{first, second} {
			if nodes, err := s.Do("CLUSTER", "NODES"); err != nil || !gone.MatchString(fmt.Sprint(nodes)) {
				return false
			}
		}
		return true
	})
	e = doctortest.Examine(t, t.Context(), d)
	e.Has("server of "+third.Addr, driver.Fail)
	alive := strings.Join(slices.Sorted(slices.Values([]string{first.Addr, second.Addr})), ", ")
	hasOfSome(e, "cluster", driver.Fail, "of 16384 slots")
	e.Has("server of "+alive, driver.OK)
}

func TestCheckBehindSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	url := "redis://" + strings.Join(s.SentinelAddrs(), ",")
	e := examine(t, url+"?master="+s.Name)
	e.Has("replication", driver.Warn, "1 in sync")
	e.Fit()
	e = examine(t, "redis://"+s.SentinelAddrs()[0])
	e.Has("exchanges", driver.Fail, "add ?master=name")
	e.Fit("exchanges")
	s.Replica().Kill()
	busy.Until(t, "the master notices", func() bool {
		info, err := s.Master().Do("INFO", "replication")
		return err == nil && strings.Contains(fmt.Sprint(info), "connected_slaves:0")
	})
	examine(t, url+"?master="+s.Name).Has("replication", driver.Warn, "no replica", "take its place")
}
