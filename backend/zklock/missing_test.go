package zklock_test

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/zklock/internal/peek"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/zktest"
)

var perms = map[rune]int32{'c': zk.PermCreate, 'd': zk.PermDelete, 'r': zk.PermRead, 'w': zk.PermWrite, 'a': zk.PermAdmin}

// administer does what a remedy says, with the password of its user.
func administer(t *testing.T, c *zk.Conn, remedy, password string) {
	t.Helper()
	commands, _, _ := strings.Cut(remedy, " (as a user")
	for command := range strings.SplitSeq(commands, "; ") {
		words := strings.Fields(command)
		list := func(acl string) []zk.ACL {
			scheme, rest, _ := strings.Cut(acl, ":")
			i := strings.LastIndex(rest, ":")
			a := zk.ACL{Scheme: scheme, ID: rest[:i]}
			for _, p := range rest[i+1:] {
				a.Perms |= perms[p]
			}
			return []zk.ACL{a}
		}
		var err error
		switch {
		case len(words) == 3 && words[0] == "addauth":
			err = c.AddAuth(words[1], []byte(strings.Replace(words[2], "PASSWORD", password, 1)))
		case len(words) == 3 && words[0] == "setAcl":
			_, err = c.SetACL(words[1], list(words[2]), -1)
		case len(words) == 4 && words[0] == "setAcl" && words[1] == "-R":
			var all func(string)
			all = func(path string) {
				if _, e := c.SetACL(path, list(words[3]), -1); e != nil && err == nil {
					err = e
				}
				below, _, _ := c.Children(path)
				for _, name := range below {
					all(path + "/" + name)
				}
			}
			all(words[2])
		case len(words) == 4 && words[0] == "create" && words[2] == `""`:
			_, err = c.Create(words[1], nil, 0, list(words[3]))
		default:
			t.Errorf("not a command: %q", command)
		}
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// Promise: if a user lacks one of the rights that programs need, the doctor names it with the
// commands that grant it, also if nothing can be opened without; and that is all it takes.
func TestDoctorNamesEachRightThatIsMissing(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Durable())
	for right, closed := range map[string]bool{"c": true, "d": false, "r": false, "w": false} { // whether it cannot be opened
		t.Run(right, func(t *testing.T) {
			admin := peek.Connect(t, s.Addr, "admin:pw")
			acl := append(zk.AuthACL(zk.PermAll), zk.DigestACL(zk.PermAll&^zk.PermAdmin&^perms[rune(right[0])], "app", "secret")...)
			for _, path := range []string{"", "/_interlock", "/_interlock/post", "/_interlock/cells", "/_interlock/swaps", "/_interlock/clock", "/_interlock/floors"} {
				_, err := admin.Create("/"+right+path, nil, 0, acl)
				noError(t, err)
			}
			url := "zk://app:secret@" + s.Addr + "/" + right
			r, refused := doctortest.Consult(t, url)
			if closed {
				doctortest.Hints(t, refused)
			} else if refused != nil {
				t.Error(refused)
			}
			r.Has("exchanges", driver.Fail, "cdrw is needed on /"+right)
			if right == "r" {
				r.Has("listing", driver.Warn, "cdrw is needed on /r", "setAcl -R /r auth::cdrwa")
			}
			administer(t, admin, r.Remedy("exchanges"), "secret")
			r, refused = doctortest.Consult(t, url)
			if r.Has("exchanges", driver.OK); refused != nil {
				t.Error(refused)
			}
		})
	}
}

// Promise: so it is if nobody may make the path, and without a user.
func TestDoctorOfAPathThatMayNotBeMade(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Durable())
	admin := peek.Connect(t, s.Addr, "admin:pw")
	_, err := admin.SetACL("/", append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...), -1)
	noError(t, err)
	url := "zk://app:secret@" + s.Addr + "/new/locks"
	r, refused := doctortest.Consult(t, url)
	if refused == nil {
		t.Error("it can be opened")
	}
	r.Has("exchanges", driver.Fail, `create /new "" auth::cdrwa; create /new/locks "" auth::cdrwa`)
	if strings.Contains(r.Remedy("exchanges"), "setAcl / ") {
		t.Error("it gives away the root: " + r.Remedy("exchanges"))
	}
	administer(t, admin, r.Remedy("exchanges"), "secret")
	r, refused = doctortest.Consult(t, url)
	if r.Fit(); refused != nil {
		t.Error(refused)
	}

	admin = peek.Connect(t, s.Addr, "admin:pw")
	_, err = admin.Create("/closed", nil, 0, zk.AuthACL(zk.PermAll))
	noError(t, err)
	url = "zk://" + s.Addr + "/closed"
	r, _ = doctortest.Consult(t, url)
	r.Has("exchanges", driver.Fail, "setAcl -R /closed world:anyone:cdrwa")
	administer(t, admin, r.Remedy("exchanges"), "")
	r, refused = doctortest.Consult(t, url)
	if r.Fit(); refused != nil {
		t.Error(refused)
	}

	if all, err := interlock.Check(t.Context(), "zk://127.0.0.1:1?timeout=1s"); err == nil || len(all) > 0 {
		t.Errorf("a server that is down was examined: %v, %+v", err, all)
	}
}
