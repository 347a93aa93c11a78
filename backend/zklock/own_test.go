package zklock_test

import (
	"context"
	"errors"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/doctor/doctortest"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// A program that has a connection already keeps its locks there.
func ExampleNew() {
	ctx := context.Background()
	tap := zklock.NewTap(nil)
	conn, _, err := zk.Connect([]string{"zk1:2181", "zk2:2181", "zk3:2181"}, 15*time.Second, zk.WithDialer(tap.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	d, err := zklock.New(ctx, conn, tap, zklock.Root("/locks"))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	// locks, err := interlock.New(ctx, d)
}

// ownConn is a program's own connection.
func ownConn(t *testing.T, addr string) (*zk.Conn, *zklock.Tap) {
	t.Helper()
	tap := zklock.NewTap(nil)
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithDialer(tap.Dial), zk.WithLogInfo(false))
	noError(t, err)
	t.Cleanup(conn.Close)
	return conn, tap
}

// The driver leaves the program's connection open, and nothing else behind.
func TestOwnConnection(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Durable())
	conn, tap := ownConn(t, s.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d := errtest.Must(zklock.New(ctx, conn, tap, zklock.Root("/ours")))(t)
	session := errtest.Must(d.Open(ctx, driver.SessionOptions{TTL: time.Second}))(t)
	if got := session.TTL; got != 10*time.Second {
		t.Errorf("the TTL is %v, not that of the client", got)
	}
	errtest.Must(session.Join(ctx, aMutex("left/behind")))(t)
	noError(t, session.Close(ctx))
	if left, _, err := conn.Children("/ours/left/behind"); err == nil && len(left) != 0 {
		t.Errorf("tickets are left: %q", left)
	}
	if err := useDriver(ctx, d); err != nil {
		t.Error(err)
	}
	e := doctortest.Examine(t, ctx, d)
	for _, check := range []string{"connection", "servers", "exchanges"} {
		e.Has(check, driver.OK)
	}
	e.Only("quorum", "access")
	noError(t, d.Close())
	if _, _, err := conn.Get("/"); err != nil {
		t.Errorf("the program's connection: %v", err)
	}
}

// Its user, if it has one, is the program's, too.
func TestOwnConnectionWithAUser(t *testing.T) {
	t.Parallel()
	s := lent(t)
	conn, tap := ownConn(t, s.Addr)
	noError(t, conn.AddAuth("digest", []byte("alice:s3cret")))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d := errtest.Must(zklock.New(ctx, conn, tap, zklock.Root("/ours"), zklock.ACL(zk.AuthACL(zk.PermAll))))(t)
	defer d.Close()
	if err := useDriver(ctx, d); err != nil {
		t.Error(err)
	}
	doctortest.Examine(t, ctx, d).Has("exchanges", driver.OK)
	atOnce(t, func() error { return useOnce(t, "zk://"+s.Addr+"/ours") }, "not authenticated")
}

func TestOwnConnectionThatIsNone(t *testing.T) {
	t.Parallel()
	s := lent(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := zklock.New(ctx, nil, nil); !driver.IsPermanent(err) {
		t.Errorf("no client: %v", err)
	}
	conn, _ := ownConn(t, s.Addr)
	atOnce(t, func() error { _, err := zklock.New(ctx, conn, zklock.NewTap(nil)); return err }, "through this Tap")
}

// Promise: Layout does for a connection of the program what these options do in a URL, and New refuses all others.
func TestTheLayoutOfAnOwnConnection(t *testing.T) {
	t.Parallel()
	s := lent(t)
	conn, tap := ownConn(t, s.Addr)
	for options, option := range map[string]string{"layout=netflix": "layout", "semaphore=curator&timeout=5s": "timeout"} {
		if _, err := zklock.New(limited(t), conn, tap, zklock.Layout(options)); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), option) {
			t.Errorf("%s: %v", options, err)
		}
	}
	d := errtest.Must(zklock.New(limited(t), conn, tap, zklock.Root("/ours"), zklock.Layout("layout=kazoo&election=latch")))(t)
	defer d.Close()
	session := errtest.Must(d.Open(limited(t), driver.SessionOptions{TTL: time.Second}))(t)
	for queue, kind := range map[string]driver.Kind{"__lock__": driver.Mutex, "latch-": driver.Election} {
		r := aMutex(queue)
		r.Kind = kind
		held := errtest.Must(session.Join(limited(t), r))(t)
		names, _, err := conn.Children("/ours/" + queue)
		if err != nil || len(names) != 1 || !strings.Contains(names[0], queue) {
			t.Errorf("the %s has the nodes %q, %v", kind, names, err)
		}
		noError(t, session.Leave(limited(t), held, true))
	}
}

// Without the right to write, a release is not marked.
func TestMarksThatAreDenied(t *testing.T) {
	t.Parallel()
	s := lent(t)
	conn, tap := ownConn(t, s.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	acl := zk.WorldACL(zk.PermRead | zk.PermCreate | zk.PermDelete)
	d := errtest.Must(zklock.New(ctx, conn, tap, zklock.Root("/ours"), zklock.ACL(acl)))(t)
	defer d.Close()
	session := errtest.Must(d.Open(ctx, driver.SessionOptions{TTL: time.Second}))(t)
	for i := range 3 {
		r := aMutex("a")
		r.ReportDeath = true
		got, err := session.Join(ctx, r)
		if err != nil || !got.Held || got.Inherited != (i > 0) {
			t.Fatalf("grant %d: %+v %v", i, got, err)
		}
		noError(t, session.Leave(ctx, got, true))
	}
}
