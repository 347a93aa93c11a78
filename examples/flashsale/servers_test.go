package flashsale

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: on servers, too, only none and local oversell, wherever the locks are, and
// nothing is left there.
func TestTheShopInPostgreSQLWithLocksOnRedis(t *testing.T) {
	s := pgtest.Start(t, pgtest.User("shop", "open sesame"), pgtest.Passwords(),
		pgtest.Setup("GRANT CREATE ON SCHEMA public TO shop"))
	sellsAsPromised(t, s.URLOf("shop", "open sesame"), redistest.Start(t).URL())
	if tables := s.SQL("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"); strings.TrimSpace(tables) != "" {
		t.Errorf("tables stayed behind: %s", tables)
	}
}

func TestTheShopInMariaDBWithLocksOnZooKeeper(t *testing.T) {
	s := mysqltest.Start(t)
	sellsAsPromised(t, s.URL(), "zk://"+zktest.Start(t).Addr)
	if tables := s.Do("SHOW TABLES IN " + mysqltest.Database); strings.TrimSpace(tables) != "" {
		t.Errorf("tables stayed behind: %s", tables)
	}
}

func sellsAsPromised(t *testing.T, database, url string) {
	c := Config{Stock: 32, Buyers: 100, Workers: 3, Database: database, URLs: []string{url}}
	results := sold(t, c)
	if len(results) < len(Strategies()) {
		t.Errorf("%d results, want those of %v", len(results), Strategies())
	}
	if has := slices.ContainsFunc(results, func(r Result) bool { return r.Strategy == "lua" }); has != isRedis(url) {
		t.Errorf("%s: lua is among the strategies: %v", url, has)
	}
	for _, r := range results {
		if r.mayFail() != (r.Oversold > 0) || !r.mayFail() && !r.Exact() {
			t.Errorf("not as promised: %+v", r)
		}
	}

	// A worker that is stopped, and one that is killed.
	c.Stock, c.Buyers = 10, 30
	c.Strike = Stop
	stoppedAsPromised(t, sold(t, c))
	c.Strike = Kill
	killedAsPromised(t, sold(t, c))

	// Workers that are killed by accident leave nothing either.
	_, err := Run(t.Context(), Config{Stock: 5, Buyers: 20, Workers: 4, Database: database, Strategies: []string{"dying"}})
	errtest.Says(t, err, "last words")
}

// Promise: mutex is shown on each of several backends, in one table.
func TestTheMutexOnSeveralBackends(t *testing.T) {
	dir := t.TempDir()
	urls := []string{fileURL("sqlite", filepath.Join(dir, "locks.db")), fileURL("file", filepath.Join(dir, "locks")), redistest.Start(t).URL(), "etcd://" + etcdtest.Start(t).Addr}
	got := labels(sold(t, Config{Stock: 20, Buyers: 60, Workers: 3, URLs: urls, Strategies: []string{"mutex", "fenced"}}))
	if want := []string{"mutex, sqlite", "mutex, file", "mutex, redis", "mutex, etcd", "fenced, sqlite"}; !slices.Equal(got, want) {
		t.Errorf("results of %v, want %v", got, want)
	}
}

// Promise: where the locks are has nothing to do with where the shop is.
func TestTheLocksAndTheShopAreApart(t *testing.T) {
	pg, maria := pgtest.Start(t).URL(), mysqltest.Start(t).URL()
	for url, database := range map[string]string{pg: maria, maria: pg} {
		sold(t, Config{Stock: 20, Buyers: 60, Workers: 3, URLs: []string{url}, Database: database, Strategies: []string{"mutex", "fenced"}})
	}
}

// Promise: a database that cannot be used is an error at once that says why and shows
// no password.
func TestADatabaseThatCannotBeUsedIsAnError(t *testing.T) {
	pg, maria := pgtest.Start(t, pgtest.User("shop", "right"), pgtest.Passwords()), mysqltest.Start(t)
	port, release, err := testserver.Reserve()
	errtest.None(t, err)
	defer release()
	nobody := testserver.Address(port)
	const secret = errtest.Password
	for url, want := range map[string]string{
		"shop":                                         "not a URL",
		"oracle://u:s3cret@h/shop":                     "unknown scheme",
		"sqlite:shop.db":                               "SQLite file",
		"mysql://u:s3cret@h":                           "no database",
		"mysql:///shop":                                "no database",
		"mysql://u:s3cret@a,b/shop":                    "no database",
		"mysql://u:s3cret@h/d?tls=maybe":               "maybe",
		"postgres://u:s3cret@h:port/d":                 "port",
		"postgres://u:s3cret@h/d?sslmode=perhaps":      "sslmode",
		pg.URLOf("shop", secret):                       "password authentication failed",
		pg.URLOf("shop", "right"):                      "permission denied",
		maria.URLOf("nobody", secret):                  "Access denied",
		"postgres://u:s3cret@" + nobody + "/d":         "connect",
		"mysql://u:s3cret@" + nobody + "/d":            "connect",
		"mysql://u:s3cret@" + nobody + "/d?timeout=1s": "connect",
	} {
		tempDir(t)
		_, err := Run(t.Context(), Config{Database: url, Strategies: []string{"none"}})
		if errtest.Says(t, err, want); strings.Contains(err.Error(), ":right@") {
			t.Errorf("%s: the error shows the password: %v", url, err)
		}
	}
}
