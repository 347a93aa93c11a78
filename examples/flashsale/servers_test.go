package flashsale

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/testserver"
	"github.com/interlock-go/interlock/internal/zktest"
)

func TestEightWorkersSellExactlyTheStockWithLocksOnRedis(t *testing.T) {
	sellsExactly(t, redistest.Start(t).URL())
}

func TestEightWorkersSellExactlyTheStockWithLocksOnZooKeeper(t *testing.T) {
	sellsExactly(t, "zk://"+zktest.Start(t).Addr)
}

// Promise: on a database server, too, all strategies but none sell exactly the stock,
// wherever the locks are, and leave nothing there.
func TestEightWorkersSellExactlyTheStockInPostgreSQL(t *testing.T) {
	s := pgtest.Start(t, pgtest.User("shop", "open sesame"), pgtest.Passwords(),
		pgtest.Setup("GRANT CREATE ON SCHEMA public TO shop"))
	sellsExactlyInDatabase(t, s.URLOf("shop", "open sesame"))
	if tables := s.SQL("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"); strings.TrimSpace(tables) != "" {
		t.Errorf("tables stayed behind: %s", tables)
	}
}

func TestEightWorkersSellExactlyTheStockInMariaDB(t *testing.T) {
	s := mysqltest.Start(t)
	sellsExactlyInDatabase(t, s.URL())
	if tables := s.Do("SHOW TABLES IN " + mysqltest.Database); strings.TrimSpace(tables) != "" {
		t.Errorf("tables stayed behind: %s", tables)
	}
}

func sellsExactlyInDatabase(t *testing.T, database string) {
	tempDir(t)
	results, err := Run(t.Context(), Config{Stock: 40, Buyers: 200, Workers: 8, Database: database})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(results); err != nil {
		t.Error(err)
	}
	if len(results) != len(Strategies()) {
		t.Errorf("%d results, want those of %v", len(results), Strategies())
	}
	for _, r := range results {
		if r.Strategy != "none" && !r.Exact() {
			t.Errorf("not exact: %+v", r)
		}
	}
	if results[0].Oversold == 0 {
		t.Errorf("without a lock nothing was oversold, so this shows nothing: %+v", results[0])
	}

	// Workers that are killed in the middle leave nothing either.
	_, err = Run(t.Context(), Config{Stock: 5, Buyers: 20, Workers: 4, Database: database, Strategies: []string{"dying"}})
	if err == nil || !strings.Contains(err.Error(), "last words") {
		t.Errorf("got %v, want the worker's end", err)
	}
}

// Promise: where the locks are has nothing to do with where the shop is.
func TestTheLocksAndTheShopAreApart(t *testing.T) {
	pg, maria := pgtest.Start(t).URL(), mysqltest.Start(t).URL()
	for url, database := range map[string]string{pg: maria, maria: pg} {
		tempDir(t)
		results, err := Run(t.Context(), Config{
			Stock: 20, Buyers: 60, Workers: 8, URL: url, Database: database, Strategies: []string{"mutex", "fenced"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(results); err != nil {
			t.Error(err)
		}
	}
}

// Promise: a database that cannot be used is an error at once that says why and shows
// no password.
func TestADatabaseThatCannotBeUsedIsAnError(t *testing.T) {
	pg, maria := pgtest.Start(t, pgtest.User("shop", "right"), pgtest.Passwords()), mysqltest.Start(t)
	port, release, err := testserver.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	nobody := testserver.Address(port)
	const secret = "s3same"
	for url, want := range map[string]string{
		"shop":                                         "not a URL",
		"oracle://u:s3same@h/shop":                     "unknown scheme",
		"sqlite:shop.db":                               "SQLite file",
		"mysql://u:s3same@h":                           "no database",
		"mysql:///shop":                                "0 hosts",
		"mysql://u:s3same@a,b/shop":                    "2 hosts",
		"mysql://u:s3same@h/d?tls=maybe":               "maybe",
		"postgres://u:s3same@h:port/d":                 "port",
		"postgres://u:s3same@h/d?sslmode=perhaps":      "sslmode",
		pg.URLOf("shop", secret):                       "password authentication failed",
		pg.URLOf("shop", "right"):                      "permission denied",
		maria.URLOf("nobody", secret):                  "Access denied",
		"postgres://u:s3same@" + nobody + "/d":         "connect",
		"mysql://u:s3same@" + nobody + "/d":            "connect",
		"mysql://u:s3same@" + nobody + "/d?timeout=1s": "connect",
	} {
		tempDir(t)
		_, err := Run(t.Context(), Config{Database: url, Strategies: []string{"none"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", url, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), ":right@")) {
			t.Errorf("%s: the error shows the password: %v", url, err)
		}
	}
}

func sellsExactly(t *testing.T, url string) {
	results, err := Run(t.Context(), Config{
		Stock: 40, Buyers: 200, Workers: 8, URL: url,
		Strategies: []string{"none", "mutex", "fenced", "striped"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(results); err != nil {
		t.Error(err)
	}
	for _, r := range results {
		if r.Strategy != "none" && !r.Exact() {
			t.Errorf("not exact: %+v", r)
		}
	}
	if results[0].Oversold == 0 {
		t.Errorf("without a lock nothing was oversold, so this shows nothing: %+v", results[0])
	}
}
