package zklock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/backend/zklock/internal/peek"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/errtest"
)

// garbage is what a node may have been overwritten with.
var garbage = []string{"", "x", "{", "null", "[]", "7", "{\"\xff\x00", strings.Repeat("[", 100_000)}

// nonsense is what a record of raised tokens may have been overwritten with.
var nonsense = append([]string{
	`5`, `{}`, `{"floor":[]}`, `{"floor":[{}]}`, `{"floor":[{"after":0,"add":0}]}`, `{"floor":[{"after":0,"add":-1}]}`,
	`{"floor":[{"after":0,"add":18446744073709551615}]}`, `{"floor":[{"after":0,"add":2251799813685248}]}`,
}, garbage...)

// overwrite sets the data of a node, which somebody may have to make first.
func overwrite(t *testing.T, c *zk.Conn, path, data string) {
	t.Helper()
	_, err := c.Set(path, []byte(data), -1)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = c.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
	}
	noError(t, err)
}

// stranger is a client that has not read anything yet.
func stranger(t *testing.T, addr string) (driver.Driver, *driver.Opened) {
	t.Helper()
	d := opened(t, addr)
	return d, session(t, d, 20*time.Second)
}

// passes takes a lock and gives it back. Its token is above that of the one before.
func passes(t *testing.T, s *driver.Opened, queue string, above uint64) uint64 {
	t.Helper()
	k := holds(t, s, aMutex(queue))
	if k.Token <= above || k.Token >= driver.MaxToken {
		t.Fatalf("%s: the token %d after %d", queue, k.Token, above)
	}
	noError(t, s.Leave(limited(t), k, true))
	return k.Token
}

// refused sees that the error is one line that says where the fault is and does not pass.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if !driver.IsPermanent(err) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("it is refused with %v", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v: nothing of %s", err, word)
		}
	}
}

func listed(t *testing.T, d driver.Driver) (names []string) {
	t.Helper()
	for q, err := range d.Queues(limited(t), "") {
		noError(t, err)
		names = append(names, q.Name)
	}
	return names
}

// Promise: garbage in the record by which the tokens of a name were raised harms that name only: it is refused until
// its tokens are raised again. Garbage in the node above the records harms nobody. No token goes back.
func TestGarbageInFloorsHarmsOneName(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	d, a := stranger(t, s.Addr)
	const floors = "/a/_interlock/floors"
	last := map[string]uint64{}
	raise := func(queue string, by uint64) {
		t.Helper()
		last[queue] += by
		noError(t, d.Raise(limited(t), queue, last[queue]))
	}
	pass := func(queues ...string) {
		t.Helper()
		_, b := stranger(t, s.Addr)
		for _, who := range []*driver.Opened{a, b} { // who has read it already, and who has not
			for _, q := range queues {
				last[q] = passes(t, who, q, max(last[q], last[""]))
			}
		}
	}
	raise("harmed", 1<<40)
	raise("raised/b", 1<<41)
	pass("harmed", "raised/b", "plain")
	for _, data := range garbage {
		overwrite(t, raw, floors, data)
		pass("harmed", "raised/b", "plain")
	}
	held := holds(t, a, aMutex("raised/b"))
	for _, data := range nonsense {
		overwrite(t, raw, floors+"/harmed", data)
		overwrite(t, raw, floors, "") // as a raise does
		pass("plain")
		fresh, b := stranger(t, s.Addr)
		for _, who := range []*driver.Opened{a, b} {
			_, err := who.Join(limited(t), aMutex("harmed"))
			refused(t, err, floors+"/harmed", `"harmed"`, "interlock admin raise-token")
		}
		if names := listed(t, fresh); strings.Join(names, " ") != "raised/b" {
			t.Errorf("listed: %q", names)
		}
		q, err := fresh.Follow(limited(t), "raised/b", "")
		if err != nil || len(q.Members) != 1 || q.Members[0].Token != held.Token {
			t.Errorf("shown as %+v %v, told %+v", q, err, held)
		}
	}
	noError(t, a.Leave(limited(t), held, true))
	raise("harmed", 1<<41)
	pass("harmed", "raised/b", "plain")

	raise("", 1<<43)
	pass("harmed", "raised/b", "plain")
	overwrite(t, raw, floors+"/%", "x")
	_, b := stranger(t, s.Addr)
	_, err := b.Join(limited(t), aMutex("harmed"))
	refused(t, err, floors+"/%", "all locks", "--all")
	raise("", 1000)
	pass("harmed", "raised/b", "plain")
}

// Promise: garbage in a node that all share harms nobody, or the name only to which it belongs,
// and is named.
func TestGarbageInASharedNodeHarmsOneName(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	d, a := stranger(t, s.Addr)
	put := func(name string) driver.Cell {
		t.Helper()
		now := errtest.Must(d.Load(limited(t), name))(t)
		c := errtest.Must(d.Swap(limited(t), driver.Swap{ID: someID(), Name: name, Version: now.Version, Value: []byte("mine")}))(t)
		return c
	}
	put("harmed/value")
	well := put("well/value")
	r := aMutex("fixed")
	r.Hold = time.Hour
	fixed := holds(t, a, r) // there is a clock
	held := holds(t, a, aMutex("held"))
	posts := nodes(t, raw, "/a/_interlock/post")
	if len(posts) != 1 {
		t.Fatalf("posts: %q", posts)
	}
	stray := posts[0] + "7" // seems to be of the session
	var token uint64
	for _, data := range append(garbage, "revoke", "evict  \nforce x y z\n"+strings.Repeat("a", 899_000)) {
		for _, path := range []string{
			"", "clock", "post", "post/" + posts[0], "post/" + stray, "post/x", "cells", "swaps", "swaps/x", "swaps/" + someID(), "cells/harmed%2Fvalue", "cells/%0A", "cells/%", "x",
		} {
			overwrite(t, raw, strings.TrimSuffix("/a/_interlock/"+path, "/"), data)
		}
		overwrite(t, raw, "/a/harmed", data)
		overwrite(t, raw, "/a/_interlock/post/"+stray, strings.Repeat("a", 900_000)) // nothing can be added to it

		_, b := stranger(t, s.Addr)
		token = passes(t, b, "well", passes(t, a, "well", token))
		passes(t, b, "harmed", 0) // what its node says is for Inherited
		noError(t, d.Raise(limited(t), "well", token+10))
		noError(t, b.Keep(limited(t), fixed, time.Hour))
		noError(t, d.Ask(limited(t), "held", held.ID, driver.Revoke))
		for {
			g := errtest.Must(a.Signals(limited(t)))(t)
			if g.Demand == driver.Revoke && g.ID == held.ID {
				break
			}
		}

		_, err := d.Load(limited(t), "harmed/value")
		refused(t, err, "/a/_interlock/cells/harmed%2Fvalue", "zkCli.sh")
		_, err = d.Watch(limited(t), "harmed/value", 0)
		refused(t, err, "/a/_interlock/cells/harmed%2Fvalue", "zkCli.sh")
		if c, err := d.Load(limited(t), "well/value"); err != nil || string(c.Value) != "mine" || c.Version != well.Version {
			t.Fatalf("another value is %+v: %v", c, err)
		}
		well = put("well/value")
		var cells []string
		for name, err := range d.Cells(limited(t), "") {
			noError(t, err)
			cells = append(cells, name)
		}
		if strings.Join(cells, " ") != "well/value" {
			t.Errorf("the values that can be read: %q", cells)
		}
		if names := listed(t, d); strings.Join(names, " ") != "fixed held" {
			t.Errorf("listed: %q", names)
		}
	}
	overwrite(t, raw, "/a/_interlock/cells/harmed%2Fvalue", "d") // as the error says
	put("harmed/value")
}

// Promise: what the nodes of tickets say harms their own queue only.
func TestGarbageInATicketHarmsItsQueue(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	d, a := stranger(t, s.Addr)
	noError(t, d.Raise(limited(t), "q", 1<<40))
	k := holds(t, a, aMutex("q"))
	w := join(t, a, aMutex("q"))
	token := uint64(0)
	for _, data := range append(garbage, `{"token":"18446744073709551615"}`, `{"joined":1,"zxid":"18446744073709551615"}`, `{"lent":"18446744073709551615"}`, `{"ttl":-9223372036854775808}`) {
		for _, node := range nodes(t, raw, "/a/q") {
			overwrite(t, raw, "/a/q/"+node, data)
		}
		fresh, b := stranger(t, s.Addr)
		for _, by := range []driver.Driver{d, fresh} {
			q := errtest.Must(by.Follow(limited(t), "q", ""))(t)
			if len(q.Members) != 2 || q.Members[0].Token != k.Token || q.Members[1].Token != 0 {
				t.Errorf("%.50q: shown as %+v, told %+v", data, q.Members, k)
			}
		}
		token = passes(t, b, "well", token)
		if names := listed(t, fresh); strings.Join(names, " ") != "q" {
			t.Errorf("listed: %q", names)
		}
		noError(t, d.Raise(limited(t), "q", k.Token+10))
	}
	noError(t, a.Leave(limited(t), k, true))
	w, err := a.Await(limited(t), w)
	if err != nil || w.Token <= k.Token+10 || w.Token >= driver.MaxToken {
		t.Errorf("%+v %v", w, err)
	}
}

// damages are what the user of a world can do to the nodes of one name.
func damages(t testing.TB, addrs []string, path, name string) (all []drivertest.Damage) {
	var raw *zk.Conn
	do := func(what string, f func() error) {
		all = append(all, drivertest.Damage{What: what, Do: func() error {
			if raw == nil {
				raw = peek.Connect(t, addrs[0], "holder:secret")
			}
			return f()
		}})
	}
	write := func(path, data string) error {
		_, err := raw.Set(path, []byte(data), -1)
		if errors.Is(err, zk.ErrNoNode) {
			_, err = raw.Create(path, []byte(data), 0, zk.AuthACL(zk.PermAll))
		}
		return err
	}
	queue, escaped := path+"/"+name, strings.ReplaceAll(name, "/", "%2F")
	for _, data := range append(garbage, "R18446744073709551615", `{"owner":"../../x","ttl":-1,"joined":-1,"zxid":"-1"}`, `{"floor":[{"after":0,"add":18446744073709551615}]}`, strings.Repeat("a", 900_000)) {
		do(fmt.Sprintf("%.20q in the node of the queue", data), func() error { return write(queue, data) })
		do(fmt.Sprintf("%.20q in the nodes of the tickets", data), func() error {
			var errs []error
			for _, node := range nodes(t, raw, queue) {
				errs = append(errs, write(queue+"/"+node, data))
			}
			return errors.Join(errs...)
		})
		do(fmt.Sprintf("%.20q in the node of the value", data), func() error { return write(path+"/_interlock/cells/"+escaped, data) })
		do(fmt.Sprintf("%.20q in the record of its tokens", data), func() error { return write(path+"/_interlock/floors/"+escaped, data) })
	}
	for _, node := range []string{
		"lock-0000000000", "lock--2147483648", "lock-2147483647", "_c_set0_held0_unsure0-number-0000000009", "_c_set9223372036854775807_held-1_unsure2147483647-number-0000000000",
		"_c_01234567-89ab-cdef-0123-456789abcdef-permits9223372036854775807of1-lock-0000000000", "_c_permits", "_c_..-until-1-kept-evicted-mutex-lock-0000000000",
		"_c_01234567-89ab-cdef-0123-456789abcdef-until1-mutex-lock-0000000000", "leases", "_c_" + strings.Repeat("x", 10_000) + "-lock-0000000001", "\u00e4%ZZ-__WRIT__0000000000",
	} {
		do(fmt.Sprintf("the node %.60q", node), func() error { return write(queue+"/"+node, "x") })
	}
	do("the nodes of the tickets are removed, and the queue", func() error {
		for _, node := range nodes(t, raw, queue) {
			if err := raw.Delete(queue+"/"+node, -1); err != nil {
				return err
			}
		}
		return raw.Delete(queue, -1)
	})
	return all
}

// Promise: a name whose node has more children than an answer may name harms no other: it is left out of a list, and
// the connection outlasts the answer.
func TestTooManyChildrenHarmOneName(t *testing.T) {
	t.Parallel()
	s := lent(t)
	raw := connected(t, s.Addr)
	tap := zklock.NewTap(nil)
	tap.Longest(10_000)
	conn, events, err := zk.Connect([]string{s.Addr}, 20*time.Second, zk.WithDialer(tap.Dial), zk.WithLogInfo(false))
	noError(t, err)
	t.Cleanup(conn.Close)
	d := errtest.Must(zklock.New(limited(t), conn, tap, zklock.Root("/a")))(t)
	defer d.Close()
	a := session(t, d, 20*time.Second)
	well, r := holds(t, a, aMutex("well")), aMutex("harmed")
	r.Hold = time.Hour
	harmed := holds(t, a, r)
	for i := range 11 {
		errtest.Must(raw.Create(fmt.Sprintf("/a/harmed/%d%s", i, strings.Repeat("x", 1000)), nil, 0, zk.WorldACL(zk.PermAll)))(t)
	}
	_, err = d.Follow(limited(t), "harmed", "")
	refused(t, err, "more children")
	var names []string
	for q, err := range d.Queues(limited(t), "") {
		if err != nil {
			refused(t, err, "harmed", "more children")
			continue
		}
		names = append(names, q.Name)
	}
	if strings.Join(names, " ") != "well" {
		t.Errorf("listed: %q", names)
	}
	answer, err := a.Renew(limited(t), []driver.Ticket{harmed, well})
	if err != nil || !slices.ContainsFunc(answer, func(r driver.Renewed) bool { return r.ID == well.ID && r.State == driver.Kept }) {
		t.Errorf("%+v, %v", answer, err)
	}
	for len(events) > 0 {
		if e := <-events; e.State == zk.StateDisconnected {
			t.Error("the connection has ended")
		}
	}
}
