package zklock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/interlock-go/interlock/backend/zklock/internal/peek"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

func someID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x", b)
}

func aMutex(name string) driver.Request {
	return driver.Request{ID: someID(), Queue: name, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

// useOnce does everything once: two sessions hand a lock on, a lease gets a
// fixed end, a value is set and deleted, tokens are raised.
func useOnce(t *testing.T, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	d, err := openURL(ctx, url)
	if err != nil {
		return err
	}
	defer d.Close()
	return useDriver(ctx, d)
}

func useDriver(ctx context.Context, d driver.Driver) error {
	a, err := d.Open(ctx, driver.SessionOptions{TTL: 30 * time.Second})
	if err != nil {
		return err
	}
	b, err := d.Open(ctx, driver.SessionOptions{TTL: 30 * time.Second})
	if err != nil {
		return err
	}
	held, err := a.Join(ctx, aMutex("a/b"))
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	waits, err := b.Join(ctx, aMutex("a/b"))
	if err != nil || !held.Held || waits.Held {
		return fmt.Errorf("join behind it: %w", err)
	}
	if err := a.Leave(ctx, held, true); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	if waits, err = b.Await(ctx, waits); err != nil || !waits.Held || waits.Token <= held.Token {
		return fmt.Errorf("await %+v after %+v: %w", waits, held, err)
	}
	if err := d.Ask(ctx, "a/b", waits.ID, driver.Revoke); err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	if _, err := b.Renew(ctx, []driver.Ticket{waits}); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	if err := b.Keep(ctx, waits, time.Minute); err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	if err := a.Leave(ctx, waits, true); err != nil {
		return fmt.Errorf("leave another's: %w", err)
	}
	if err := d.Raise(ctx, "a/b", waits.Token+100); err != nil {
		return fmt.Errorf("raise: %w", err)
	}
	cell, err := d.Load(ctx, "v")
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if cell, err = d.Swap(ctx, driver.Swap{ID: someID(), Name: "v", Value: []byte("x"), Version: cell.Version}); err != nil {
		return fmt.Errorf("swap: %w", err)
	}
	if _, err = d.Swap(ctx, driver.Swap{ID: someID(), Name: "v", Delete: true, Version: cell.Version}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if err := a.Close(ctx); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return b.Close(ctx)
}

// atOnce makes sure that an error came soon, has the words, and no secret.
func atOnce(t *testing.T, f func() error, words ...string) error {
	t.Helper()
	began := time.Now()
	err := f()
	errtest.Says(t, err, words...)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v: %v", took, err)
	}
	return err
}

// What a user makes, others may not use. A wrong password makes somebody else of
// the user, which ZooKeeper does not say; the first node that is refused does.
func TestUser(t *testing.T) {
	t.Parallel()
	s := lent(t)
	at := func(user *url.Userinfo, rest string) string { return "zk://" + user.String() + "@" + s.Addr + rest }
	alice := url.UserPassword("alice", "s3cret")
	noError(t, useOnce(t, at(alice, "/ours")))
	if err := useOnce(t, at(alice, "/ours?acl=creator")); err != nil {
		t.Fatal(err)
	}
	strange := url.UserPassword("bob", `s3cret p@ss:w/ö?r#d%&+"'\`)
	noError(t, useOnce(t, at(strange, "/strange")))
	if err := useOnce(t, at(strange, "/strange")); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{
		at(url.UserPassword("alice", "s3cret2"), "/ours"),
		at(url.UserPassword("bob", "s3cret"), "/ours"),
		"zk://" + s.Addr + "/ours",
	} {
		err := atOnce(t, func() error { return useOnce(t, wrong) }, "not authenticated", "user and password of the URL")
		if !driver.IsPermanent(err) {
			t.Errorf("not permanent: %v", err)
		}
	}
	for _, path := range []string{"/ours/a/b", "/ours/_interlock/cells"} {
		acl, _, err := peek.Connect(t, s.Addr, "alice:s3cret").GetACL(path)
		if errors.Is(err, zk.ErrNoNode) {
			continue // a container that was empty
		}
		if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || acl[0].Perms != zk.PermAll {
			t.Errorf("%s: %v %v", path, acl, err)
		}
	}
}

func TestACLs(t *testing.T) {
	t.Parallel()
	s := lent(t)
	user := "zk://alice:s3cret@" + s.Addr
	for acl, wants := range map[string]struct {
		read, write error
	}{
		"world":   {nil, nil},
		"read":    {nil, zk.ErrNoAuth},
		"creator": {zk.ErrNoAuth, zk.ErrNoAuth},
	} {
		if err := useOnce(t, user+"/"+acl+"?acl="+acl); err != nil {
			t.Errorf("acl=%s: %v", acl, err)
		}
		other := peek.Connect(t, s.Addr, "")
		path := "/" + acl + "/_interlock/cells/v"
		if _, _, err := other.Get(path); !errors.Is(err, wants.read) {
			t.Errorf("acl=%s: reading %s: %v", acl, path, err)
		}
		if _, err := other.Set(path, []byte("d"), -1); !errors.Is(err, wants.write) {
			t.Errorf("acl=%s: writing %s: %v", acl, path, err)
		}
	}
	if err := useOnce(t, "zk://"+s.Addr+"/world"); err != nil {
		t.Errorf("another user of acl=world: %v", err)
	}
	for _, c := range [][]string{
		{"zk://" + s.Addr + "?acl=creator", "acl=creator needs a user"},
		{"zk://" + s.Addr + "?acl=read", "acl=read needs a user"},
		{user + "?acl=no", "option acl is not one of: creator, world, read"},
		{user + "/a//b", "empty or dotted"},
		{user + "/a/../b", "empty or dotted"},
		{user + "?timeout=0s", "timeout must be positive"},
		{user + "?password=s3cret", "unknown option password"},
		{"zk://alice:s3cret%@" + s.Addr, "%25"},
	} {
		err := atOnce(t, func() error { return useOnce(t, c[0]) }, c[1])
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("not invalid: %v", err)
		}
	}
}

// Without the right to write to the node of a queue, a release cannot be marked
// there. Locks work without; a ticket then counts everybody who was before it as
// dead.
func TestQueueThatMayNotBeWritten(t *testing.T) {
	t.Parallel()
	s := lent(t)
	owner := peek.Connect(t, s.Addr, "owner:x")
	for _, path := range []string{"/a", "/a/b"} {
		acl := append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermCreate|zk.PermDelete|zk.PermRead)...)
		errtest.Must(owner.Create(path, nil, 0, acl))(t)
	}
	for range 2 {
		noError(t, useOnce(t, "zk://"+s.Addr))
	}
	data, _, err := owner.Get("/a/b")
	if err != nil || len(data) != 0 {
		t.Errorf("the node of the queue has %q: %v", data, err)
	}
	left, _, err := owner.Children("/a/b")
	if err != nil || len(left) != 0 {
		t.Errorf("tickets are left: %q %v", left, err)
	}
}

// Promise: who is refused because the server has as many connections from here as it
// allows is told of that limit.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Config("maxClientCnxns", "2"))
	d := opened(t, s.Addr)
	var err error
	for range 4 {
		if _, err = d.Open(limited(t), driver.SessionOptions{TTL: 10 * time.Second}); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "maxClientCnxns") {
		t.Errorf("the limit is not named: %v", err)
	}
}

// Promise: timeout= is how long a server may take to grant a session, also if it does not
// answer at first.
func TestAServerThatIsSlowToGrantASession(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	s.Pause()
	if err := useOnce(t, "zk://"+s.Addr+"/app?timeout=500ms"); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Errorf("of a server that does not answer: %v", err)
	}
	resumed := time.AfterFunc(3500*time.Millisecond, s.Resume) // when the client has tried again
	defer resumed.Stop()
	noError(t, useOnce(t, "zk://"+s.Addr+"/app?timeout=1m"))
}

// Promise: a name of the URL that cannot be resolved keeps nobody from the other servers, and
// is no error of usage.
func TestANameThatCannotBeResolved(t *testing.T) {
	t.Parallel()
	s := lent(t)
	const unknown = "server.invalid:2181"
	for _, addrs := range []string{s.Addr + "," + unknown, unknown + "," + s.Addr} {
		a := session(t, opened(t, addrs), 10*time.Second)
		noError(t, a.Leave(limited(t), holds(t, a, aMutex("q")), true))
		noError(t, a.Close(limited(t)))
	}
	d := opened(t, unknown)
	_, err := d.Open(limited(t), driver.SessionOptions{TTL: time.Second})
	if err == nil || driver.IsPermanent(err) || !strings.Contains(err.Error(), "server.invalid") {
		t.Errorf("Open: %v", err)
	}
}

// Promise: a connection that ends while a session is opened, as those of short sessions do when a
// server is slow, is made again.
func TestOpeningOutlastsAConnection(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d := opened(t, via.Addr)
	h := via.HoldReplies(zktest.With(zktest.OpCreate))
	go func() {
		<-h.Held()
		via.Cut()
		h.Release()
	}()
	if _, err := d.Open(limited(t), driver.SessionOptions{TTL: 2 * time.Second}); err != nil {
		t.Error(err)
	}
}

// Promise: on each connection the server hears who the user is before it is asked for anything.
func TestEachConnectionBeginsWithTheUser(t *testing.T) {
	t.Parallel()
	s := lent(t)
	via := zktest.NewProxy(t, s.Addr)
	d := errtest.Must(openURL(t.Context(), "zk://app:secret@"+via.Addr+"/users"))(t)
	t.Cleanup(func() { _ = d.Close() })
	a := session(t, d, 20*time.Second)
	k := holds(t, a, aMutex("q"))
	const opAuth zktest.Op = 100
	var connections atomic.Int32
	var last zktest.Op // of a request
	via.Observe(func(f zktest.Frame) {
		if f.Reply {
			return
		}
		if last == zktest.OpConnect {
			connections.Add(1)
			if f.Op != opAuth {
				t.Errorf("a connection begins with a %v", f.Op)
			}
		}
		last = f.Op
	})
	for n := range int32(5) {
		via.Cut()
		busy.Until(t, "the client is back", func() bool {
			_, err := a.Renew(limited(t), []driver.Ticket{k})
			return err == nil && connections.Load() > n
		})
	}
}
