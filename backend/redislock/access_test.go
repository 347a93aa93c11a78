package redislock_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/redislock/internal/conn"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// documented are the rights that docs/redis.md names.
type documented struct {
	base      []string            // that every use needs
	more      map[string][]string // that some uses need besides
	sentinels []string
}

func documentedRights(t *testing.T) documented {
	t.Helper()
	text := errtest.Must(os.ReadFile("../../docs/redis.md"))(t)
	command := func(name string) (words []string) {
		t.Helper()
		found := regexp.MustCompile("(?s)\n" + name + " ACL SETUSER app (.*?)\n```").FindSubmatch(text)
		if found == nil {
			t.Fatalf("docs/redis.md has no command %s ACL SETUSER app", name)
		}
		for _, word := range strings.Fields(string(found[1])) {
			if word = strings.Trim(word, `'\`); word != "" {
				words = append(words, word)
			}
		}
		return words
	}
	d := documented{command("redis-cli"), map[string][]string{}, command("redis-cli -p 26379")}
	for _, row := range regexp.MustCompile("(?m)^\\| (.*) \\| `([+][^`]*)` \\|$").FindAllStringSubmatch(string(text), -1) {
		d.more[strings.ReplaceAll(row[1], "`", "")] = strings.Fields(strings.ReplaceAll(row[2], `\|`, "|"))
	}
	return d
}

// with are the rights of a use, which has to be documented.
func (d documented) with(t *testing.T, uses ...string) []string {
	t.Helper()
	all := slices.Clone(d.base)
	for _, use := range uses {
		if d.more[use] == nil {
			t.Fatalf("docs/redis.md names no rights for %q", use)
		}
		all = append(all, d.more[use]...)
	}
	return all
}

// without calls f for each of the rights with all others.
func without(t *testing.T, all, each []string, f func(t *testing.T, others []string)) {
	t.Helper()
	for _, right := range each {
		if i := slices.Index(all, right); strings.ContainsAny(right[:1], "+~&") {
			t.Run(right, func(t *testing.T) { f(t, slices.Delete(slices.Clone(all), i, i+1)) })
		}
	}
}

// user makes one on all servers, and returns the beginning of the URL for it.
func user(t *testing.T, rights []string, servers ...*redistest.Server) string {
	t.Helper()
	name := "u" + strings.ToLower(rand.Text())
	for _, s := range servers {
		errtest.Must(s.Do(append([]string{"ACL", "SETUSER", name}, rights...)...))(t)
	}
	return "redis://" + name + ":secret@"
}

// unasked is the right of the two to a Cluster's topology that this server is not asked for: the client asks a
// Redis before 8 for its slots, and later ones and Valkey for their shards.
func unasked(t *testing.T, s *redistest.Server) string {
	t.Helper()
	switch info := fmt.Sprint(do(t, s, "INFO", "server")); {
	case strings.Contains(info, "\nvalkey_version:"), strings.Contains(info, "\nredis_version:8"):
		return "+cluster|slots"
	}
	return "+cluster|shards"
}

func withRights(t *testing.T, s *redistest.Server, rights ...string) (url string) {
	t.Helper()
	return user(t, rights, s) + s.Addr + "?prefix=app/"
}

// refusedAtOnce makes sure that a missing right is found out without delay, and that
// the error says so.
func refusedAtOnce(t *testing.T, began time.Time, err error) {
	t.Helper()
	switch took := time.Since(began); {
	case err == nil:
		t.Error("all goes well without it")
	case took > soon:
		t.Errorf("after %v: %v", took, err)
	case !conn.Forbidden(err):
		t.Errorf("what is missing? %v", err)
	case !driver.IsPermanent(err):
		t.Errorf("not permanent: %v", err)
	}
}

// uses are rules in which every method is called, but those that list.
var uses = []string{"LostCalls", "Follow", "Watch", "Resize", "Raise", "Keep", "Ask", "ExpiryOfAHeldTicket", "SessionClose"}

// enough runs these rules over a URL.
func enough(t *testing.T, url string) {
	t.Helper()
	drivertest.Run(t, drivertest.Backend{TTL: time.Second, Small: true, Shape: "mutex", Only: uses, World: func(testing.TB) drivertest.World {
		at := url + "w" + newID() + "/"
		return drivertest.World{Open: func(ctx context.Context) (driver.Driver, error) { return openURL(ctx, at) }}
	}})
}

// Promise: the rights that are documented are enough. (Rules see that no goroutine is left: no other test runs beside
// them.) That none of them is too much says TestCheckTriesEveryCommand.
func TestLeastRights(t *testing.T) {
	s := redistest.Start(t)
	enough(t, withRights(t, s, documentedRights(t).base...))
}

// What the client sends besides, and may be refused, is noted by the server.
func TestRightsThatNothingIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := documentedRights(t)
	refused := func(rights []string) string {
		t.Helper()
		do(t, s, "ACL", "LOG", "RESET")
		errtest.Is(t, openOnce(t, withRights(t, s, rights...)), nil)
		return refusals(t, s)
	}
	all := d.with(t, "a quiet ACL LOG")
	if r := refused(all); r != "" {
		t.Errorf("with all rights: %s", r)
	}
	without(t, all, d.more["a quiet ACL LOG"], func(t *testing.T, others []string) {
		if !slices.Contains(others, unasked(t, s)) {
			t.Skip("this server is not asked for it")
		}
		if refused(others) == "" { // the client may send the last of it when it has been closed
			busy.Until(t, "something is refused without it", func() bool { return refusals(t, s) != "" })
		}
	})
}

// refusals are what the server has noted.
func refusals(t *testing.T, s *redistest.Server) string {
	t.Helper()
	log := errtest.Must(s.Do("ACL", "LOG"))(t)
	if len(log.([]any)) == 0 {
		return ""
	}
	return fmt.Sprint(log)
}

// The library does not repeat what is refused.
func TestARefusalIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := documentedRights(t)
	for _, right := range []string{"+evalsha", "+set", "+time", "~app/*"} {
		i := slices.Index(d.base, right)
		// Its Close tries for a TTL to end the session.
		c := errtest.Must(interlock.Open(t.Context(), withRights(t, s, slices.Delete(slices.Clone(d.base), i, i+1)...)+"&"+patient, interlock.TTL(time.Second)))(t)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
		defer cancel()
		began := time.Now()
		_, err := c.Mutex("x").Acquire(ctx)
		refusedAtOnce(t, began, err)
	}
}

func TestRightsOfSomeUses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := documentedRights(t)
	replicaOf(t, s)
	for name, use := range map[string]func(url string) error{
		"interlock ls": func(url string) error {
			d, err := openURL(t.Context(), url+"&"+patient)
			if err != nil {
				return err
			}
			defer d.Close()
			for _, err := range d.Queues(t.Context(), "") {
				return err
			}
			return nil
		},
		"?replicas=n":             func(url string) error { return openOnce(t, url+"&replicas=1&replica_timeout=30s") },
		"a database other than 0": func(url string) error { return openOnce(t, strings.Replace(url, "?", "/3?", 1)) },
	} {
		all := d.with(t, name)
		errtest.Is(t, use(withRights(t, s, all...)), nil, name)
		without(t, all, d.more[name], func(t *testing.T, others []string) {
			refusedAtOnce(t, time.Now(), use(withRights(t, s, others...)))
		})
	}
}

func leastRightsInACluster(t *testing.T, c *redistest.Cluster) {
	d := documentedRights(t)
	addrs := strings.Join(c.Addrs(), ",")
	url := func(rights []string) string { return user(t, rights, c.Nodes...) + addrs + "?prefix=app/" }
	all := d.with(t, "a Cluster")
	noError(t, openOnce(t, url(all)))

	// A slot on its way to another node.
	key := "app/" + rand.Text()
	from := c.Owner(key)
	to := c.Nodes[(slices.Index(c.Nodes, from)+1)%len(c.Nodes)]
	ask := func(s *redistest.Server, words ...string) string {
		t.Helper()
		answer := errtest.Must(s.Do(words...))(t)
		return fmt.Sprint(answer)
	}
	slot := ask(from, "CLUSTER", "KEYSLOT", key)
	ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", ask(from, "CLUSTER", "MYID"))
	ask(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", ask(to, "CLUSTER", "MYID"))
	defer ask(from, "CLUSTER", "SETSLOT", slot, "STABLE")
	defer ask(to, "CLUSTER", "SETSLOT", slot, "STABLE")
	moving := func(url string, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		d, err := openURL(ctx, url+"&"+patient)
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = d.Load(ctx, strings.TrimPrefix(key, "app/"))
		return err
	}
	errtest.Is(t, moving(url(all), time.Minute), nil)
	without(t, all, d.more["a Cluster"], func(t *testing.T, others []string) {
		url := url(others)
		switch {
		case !slices.Contains(others, unasked(t, c.Nodes[0])):
			t.Skip("this server is not asked for it")
		case !slices.Contains(others, "+asking"):
			// The client is sent to and fro until the slot has moved.
			if err := moving(url, 100*time.Millisecond); err == nil {
				t.Error("all goes well without it")
			}
			examine(t, url).Has("cluster", driver.Warn, "+asking")
		default:
			refusedAtOnce(t, time.Now(), moving(url, time.Minute))
		}
	})

	all = d.with(t, "a Cluster", "interlock ls", "interlock doctor", "interlock doctor in a Cluster")
	examine(t, url(all)).Has("cluster", driver.OK)
	without(t, all, d.more["interlock doctor in a Cluster"], func(t *testing.T, others []string) {
		examine(t, url(others)).Has("cluster", driver.Warn, "+cluster|info")
	})
}

// Promise: the rights that servers and Sentinels ask for are those that are documented, and the doctor names each that
// is missing.
func TestRightsBehindSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	d := documentedRights(t)
	url := func(rights, ofSentinels []string) string {
		own := strings.TrimSuffix(strings.TrimPrefix(user(t, ofSentinels, s.Sentinels...), "redis://"), ":secret@")
		return user(t, rights, s.Nodes...) + strings.Join(s.SentinelAddrs(), ",") +
			"?prefix=app/&master=" + s.Name + "&sentinel_user=" + own + "&sentinel_password=secret"
	}
	all := d.with(t, "Sentinels")
	noError(t, openOnce(t, url(all, d.sentinels)))
	for _, sentinel := range s.Sentinels {
		if r := refusals(t, sentinel); r != "" {
			t.Errorf("with all rights: %s", r)
		}
	}
	without(t, all, d.more["Sentinels"], func(t *testing.T, others []string) {
		refusedAtOnce(t, time.Now(), openOnce(t, url(others, d.sentinels)))
	})
	without(t, d.sentinels, d.sentinels, func(t *testing.T, others []string) {
		for _, sentinel := range s.Sentinels {
			errtest.Must(sentinel.Do("ACL", "LOG", "RESET"))(t)
		}
		d, err := openURL(t.Context(), url(all, others))
		if err != nil {
			refusedAtOnce(t, time.Now(), err)
			return
		}
		defer d.Close()
		busy.Until(t, "it is refused", func() bool {
			return slices.ContainsFunc(s.Sentinels, func(s *redistest.Server) bool { return refusals(t, s) != "" })
		})
	})

	all = d.with(t, "Sentinels", "interlock ls", "interlock doctor")
	others := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == "+role" })
	cured(t, url(others, d.sentinels)+"&"+patient, "+role", s.Nodes...)
	for _, right := range []string{"+sentinel|sentinels", "+sentinel|get-master-addr-by-name"} {
		at := url(all, slices.DeleteFunc(slices.Clone(d.sentinels), func(r string) bool { return r == right })) + "&" + patient
		r, refused := doctortest.Consult(t, at)
		if refused == nil {
			t.Errorf("it can be opened without %s", right)
		}
		statement := granting.FindString(r.Remedy("server"))
		if !strings.Contains(r.Remedy("server"), "on each Sentinel: ") || !strings.HasSuffix(statement, " "+right) {
			t.Errorf("without %s the doctor says %q", right, r.Remedy("server"))
		}
		for _, sentinel := range s.Sentinels {
			errtest.Must(sentinel.Do(strings.Fields(statement)...))(t)
		}
		_, refused = doctortest.Consult(t, at)
		errtest.Is(t, refused, nil, right)
	}
}

// Promise: a user who may use only keys behind a prefix needs no other, though the program
// writes the prefix into the names and not into the URL.
func TestAUserOfAPrefixNeedsNoOtherKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := user(t, documentedRights(t).base, s) + s.Addr
	_, a := session(t, url, time.Minute)
	_, b := session(t, url, time.Minute)
	g := &grants{t: t, queue: "app/q"}
	g.take("by this user", a, b)
	if got := do(t, s, "EXISTS", "interlock:{}:m"); got != int64(0) {
		t.Error("a key outside the prefix was written")
	}
}
