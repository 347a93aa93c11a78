package zklock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock/internal/peek"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: who lacks a right is told so at once, and what to do, and leaves no ticket that
// it could remove.
func TestRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Tick(2*time.Second))
	owner := peek.Connect(t, s.Addr, "owner:x")
	all := func(perms int32) []zk.ACL {
		return append(zk.AuthACL(zk.PermAll), zk.WorldACL(perms)...)
	}
	node := func(path string, perms int32) {
		_, err := owner.Create(path, nil, 0, all(perms))
		noError(t, err)
	}
	fresh := func(perms int32) *driver.Opened { // a queue /a/q that allows this
		t.Helper()
		for _, path := range []string{"/a/q", "/a"} {
			for _, n := range nodes(t, owner, path) {
				if n != "_interlock" {
					_ = owner.Delete(path+"/"+n, -1)
				}
			}
		}
		node("/a/q", perms)
		return session(t, opened(t, s.Addr), 40*time.Second)
	}
	clear := func(what string, f func() error) {
		t.Helper()
		began := time.Now()
		err := f()
		if !driver.IsPermanent(err) || !strings.Contains(err.Error(), "cdrw") || !strings.Contains(err.Error(), "doctor") {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s took %v", what, took)
		}
	}
	joins := func(a *driver.Opened, r driver.Request) func() error {
		return func() error { _, err := a.Join(limited(t), r); return err }
	}
	held, robust := aMutex("q"), aMutex("q")
	held.Hold, robust.ReportDeath = time.Hour, true

	node("/a", zk.PermAll)
	node("/a/_interlock", zk.PermAll)
	for what, perms := range map[string]int32{"create": zk.PermCreate, "read": zk.PermRead} {
		for _, r := range []driver.Request{aMutex("q"), held, robust} {
			a := fresh(zk.PermAll &^ perms)
			r.ID = someID()
			clear("Join without "+what, joins(a, r))
			empties(t, owner)
		}
	}

	a := fresh(zk.PermAll &^ zk.PermDelete)
	k := holds(t, a, aMutex("q"))
	clear("Leave without delete", func() error { return a.Leave(limited(t), k, true) })
	clear("Keep without delete", func() error { return a.Keep(limited(t), k, time.Hour) })
	noError(t, a.Close(limited(t)))
	empties(t, owner) // with the session

	a = fresh(zk.PermAll &^ zk.PermWrite)
	noError(t, a.Leave(limited(t), holds(t, a, aMutex("q")), true))
	a = fresh(zk.PermAll &^ zk.PermAdmin)
	noError(t, a.Leave(limited(t), holds(t, a, held), true))

	errtest.Must(owner.SetACL("/a", all(zk.PermRead), -1))(t)
	clear("a queue that may not be made", joins(a, aMutex("new")))
	errtest.Must(owner.SetACL("/a", all(zk.PermAll), -1))(t)
	a = fresh(zk.PermAll)
	noError(t, a.Leave(limited(t), holds(t, a, held), true)) // makes what all share
	for node, r := range map[string]driver.Request{"clock": held, "floors": aMutex("q")} {
		if _, err := owner.SetACL("/a/_interlock/"+node, all(0), -1); err != nil {
			t.Logf("%s belongs to nobody: %v", node, err)
		}
		a := fresh(zk.PermAll)
		r.ID = someID()
		clear("without "+node, joins(a, r))
		empties(t, owner)
		_, err := owner.SetACL("/a/_interlock/"+node, zk.WorldACL(zk.PermAll), -1)
		noError(t, err)
	}
	errtest.Must(owner.SetACL("/a/_interlock/post", all(zk.PermRead), -1))(t)
	d := opened(t, s.Addr)
	clear("Open without post", func() error {
		_, err := d.Open(limited(t), driver.SessionOptions{TTL: time.Second})
		return err
	})
}

// Promise: a node that nobody may read, which whoever may create nodes can make, hides no other name
// from a listing.
func TestANodeThatNobodyMayReadHidesNoOther(t *testing.T) {
	t.Parallel()
	s := lent(t)
	d := opened(t, s.Addr)
	a := session(t, d, 40*time.Second)
	holds(t, a, aMutex("well"))
	_, conn := given(t, 40*time.Second, s.Addr)
	id := "00000000-0000-0000-0000-000000000000"
	for _, path := range []string{"/a/queue", "/a/ticket/_c_" + id + "-mutex-lock-0000000000", "/a/plain/x", "/a/zz/y/z"} {
		for i := 3; i < len(path); i++ {
			if path[i] == '/' {
				if _, err := conn.Create(path[:i], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
					t.Fatal(err)
				}
			}
		}
		_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermDelete))
		noError(t, err)
		var names []string
		for q, err := range d.Queues(limited(t), "") {
			noError(t, err)
			names = append(names, q.Name)
		}
		if len(names) != 1 || names[0] != "well" {
			t.Errorf("beside %s the list is %q", path, names)
		}
	}
}
