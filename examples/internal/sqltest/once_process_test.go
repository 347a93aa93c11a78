//go:build unix

package sqltest

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/fence"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/once"
)

// order is a program that holds the lock of the stock, and then sells once for each key that it
// reads. It never looks whether it still holds the lock.
func order(args []string) error {
	ctx := context.Background()
	locks, driver, dsn := args[0], args[1], args[2]
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := interlock.Open(ctx, locks)
	if err != nil {
		return err
	}
	defer c.Close()
	lease, err := c.Mutex("stock").Acquire(ctx)
	if err != nil {
		return err
	}
	fmt.Println("acquired")
	for keys := bufio.NewScanner(os.Stdin); keys.Scan(); {
		result, repeated, err := orderOnce(ctx, db, driver, keys.Text(), lease)
		fmt.Printf("%s %v %v\n", result, repeated, err)
	}
	return lease.Release()
}

// orderOnce sells one, checked with the token.
func orderOnce(ctx context.Context, db *sql.DB, driver, key string, g fence.Grant) (string, bool, error) {
	dialects := map[string]struct {
		once  once.Dialect
		fence fence.Dialect
	}{"sqlite": {once.SQLite, fence.SQLite}, "pgx": {once.PostgreSQL, fence.PostgreSQL}, "mysql": {once.MySQL, fence.MySQL}}
	orders, err := once.NewTable(dialects[driver].once, once.DefaultTable)
	if err != nil {
		return "", false, err
	}
	items, err := fence.NewColumn(dialects[driver].fence, "items", "id", "token")
	if err != nil {
		return "", false, err
	}
	result, repeated, err := orders.Run(ctx, db, 20, key, func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
		if err := items.Check(ctx, tx, 1, g); err != nil {
			return nil, err
		}
		return sell(ctx, tx, fmt.Sprint("sold under ", g.Token()))
	}, once.Under(g))
	return string(result), repeated, err
}

// eachOrder runs a test on each kind of database, with a shop.
func eachOrder(t *testing.T, kinds []*database, test func(t *testing.T, d *instance, locks string)) {
	each(t, kinds, func(t *testing.T, d *instance) {
		orders := errtest.Must(once.NewTable(d.once, once.DefaultTable))(t)
		noError(t, orders.Create(t.Context(), d.open(t)))
		test(t, d, "sqlite://"+filepath.Join(t.TempDir(), "locks.db"))
	}, "CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, token BIGINT)", "INSERT INTO items VALUES (1, 100, NULL)")
}

// Promise: a process that was stopped for longer than its lease, and goes on, sells nothing: neither
// with the key that the next holder has used, nor with a key of its own.
func TestOnceAStoppedProcessSellsNothing(t *testing.T) {
	eachOrder(t, []*database{sqlite, postgres, mariadb}, func(t *testing.T, d *instance, locks string) {
		ctx := t.Context()
		old := start(t, "orderer", locks+"?ttl=2s", d.driver, d.dsn)
		old.says("acquired")
		c := stopped(t, old, locks)
		lease := errtest.Must(c.Mutex("stock").Acquire(ctx))(t)
		db := d.open(t)
		text, repeated, err := orderOnce(ctx, db, d.driver, "order 1", lease)
		if want := fmt.Sprint("sold under ", lease.Token()); text != want || repeated || err != nil {
			t.Fatalf("the next holder: got %q, %v, %v; want %q", text, repeated, err, want)
		}
		old.signal(syscall.SIGCONT)
		for _, key := range []string{"order 1", "order 2"} {
			old.tell(key)
			if got := old.next(); !strings.Contains(got, fence.ErrStale.Error()) || !strings.Contains(got, fmt.Sprint(lease.Token())) {
				t.Errorf("%s of the stopped process: got %q, want it refused because of token %d", key, got, lease.Token())
			}
		}
		stock(t, db, 99)
		isErr(t, lease.Release(), nil)
	})
}

// stopped stops a process, and returns a client of its locks. A process that was stopped in a transaction of SQLite would
// keep others out: then it goes on, and is stopped again.
func stopped(t *testing.T, p *process, locks string) *interlock.Client {
	t.Helper()
	var c *interlock.Client
	busy.Until(t, "the process is stopped outside of a transaction", func() bool {
		p.signal(syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(5*time.Second))
		defer cancel()
		var err error
		if c, err = interlock.Open(ctx, locks, interlock.TTL(time.Minute)); err == nil {
			return true
		}
		if !strings.Contains(err.Error(), "which is stopped") {
			t.Fatal(err)
		}
		p.signal(syscall.SIGCONT)
		return false
	})
	t.Cleanup(func() { isErr(t, c.Close(), nil) })
	return c
}

// thief is a proxy that takes the reply of commits.
type thief struct {
	*testserver.Proxy
	steal atomic.Int64 // so many; with each the connection is cut
	keep  atomic.Bool  // instead, the reply is held back
	taken atomic.Int64
}

func newThief(t *testing.T, server string) *thief {
	t.Helper()
	p := &thief{}
	var err error
	p.Proxy, err = testserver.RunProxy(server, testserver.ProxyOptions{Filters: p.filters})
	noError(t, err)
	t.Cleanup(p.Close)
	return p
}

func (p *thief) filters() (requests, replies testserver.Filter) {
	var committing atomic.Bool
	requests = func(read []byte) testserver.Passed {
		if bytes.Contains(bytes.ToLower(read), []byte("commit")) {
			committing.Store(true)
		}
		return testserver.Pass(read)
	}
	replies = func(read []byte) testserver.Passed {
		switch {
		case len(read) == 0 || !committing.Load():
		case p.keep.Load():
			p.taken.Add(1)
			return testserver.Passed{}
		case p.steal.Add(-1) >= 0:
			p.taken.Add(1)
			return testserver.Passed{Cut: true}
		}
		return testserver.Pass(read)
	}
	return requests, replies
}

// through is the data source of the database behind a proxy.
func (d *instance) through(t *testing.T) (*thief, string) {
	t.Helper()
	if d.driver == "mysql" {
		server := mariaServer(t)
		p := newThief(t, server.Addr)
		return p, strings.Replace(d.dsn, server.Addr, p.Addr, 1)
	}
	u := errtest.Must(url.Parse(d.dsn))(t)
	p := newThief(t, u.Host)
	u.Host = p.Addr
	return p, u.String()
}

// Promise: when the reply of the commit is lost, the same call finds out that the work is done.
func TestOnceALostReplyOfTheCommit(t *testing.T) {
	if !mysqltest.MariaDB() {
		t.Skip("its connections may be encrypted: the proxy cannot see a commit")
	}
	eachOrder(t, servers, func(t *testing.T, d *instance, locks string) {
		proxy, dsn := d.through(t)
		p := start(t, "orderer", locks, d.driver, dsn)
		p.says("acquired")
		proxy.steal.Store(2)
		p.tell("order 1")
		first := p.next()
		if !strings.HasPrefix(first, "sold under ") || !strings.HasSuffix(first, " true <nil>") {
			t.Errorf("got %q, want the result that stands there already", first)
		}
		if n := proxy.taken.Load(); n != 2 { // of the work, and of the look at its result
			t.Errorf("%d replies were taken, want 2", n)
		}
		stock(t, d.open(t), 99)
		p.tell("order 1")
		p.says(first)

		// All replies are lost: the caller is told that it does not know.
		proxy.steal.Store(1000)
		p.tell("order 2")
		if got := p.next(); !strings.Contains(got, once.ErrUnknown.Error()) {
			t.Errorf("got %q, want %v", got, once.ErrUnknown)
		}
		proxy.steal.Store(0)
		p.tell("order 2")
		if got := p.next(); !strings.HasSuffix(got, " true <nil>") {
			t.Errorf("got %q, want the result that stands there already", got)
		}
		stock(t, d.open(t), 98)
	})
}

// Promise: a process that is killed while it waits for the reply of its commit has done the work
// once; whoever asks after it with the same key gets the result.
func TestOnceAProcessKilledBeforeTheReply(t *testing.T) {
	if !mysqltest.MariaDB() {
		t.Skip("its connections may be encrypted: the proxy cannot see a commit")
	}
	eachOrder(t, servers, func(t *testing.T, d *instance, locks string) {
		proxy, dsn := d.through(t)
		p := start(t, "orderer", locks, d.driver, dsn)
		p.says("acquired")
		proxy.keep.Store(true)
		p.tell("order 1")
		db := d.open(t)
		noError(t, testserver.Until(func() (bool, error) { return proxy.taken.Load() > 0, nil }))
		stock(t, db, 99)
		p.kill()

		next := start(t, "orderer", locks, d.driver, d.dsn)
		next.says("acquired")
		next.tell("order 1")
		if got := next.next(); !strings.HasPrefix(got, "sold under ") || !strings.HasSuffix(got, " true <nil>") {
			t.Errorf("got %q, want the result of the killed process", got)
		}
		stock(t, db, 99)
	})
}

// Promise: a call whose context has ended says so, and leaves the work undone.
func TestOnceAContextThatEnds(t *testing.T) {
	eachOnce(t, databases, func(t *testing.T, d *instance, orders *once.Table) {
		db := d.open(t)
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := orders.Run(ctx, db, 5, "key", func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
			answer, err := sell(ctx, tx, "")
			cancel()
			return answer, err
		})
		isErr(t, err, context.Canceled)
		stock(t, db, 100)
	})
}
