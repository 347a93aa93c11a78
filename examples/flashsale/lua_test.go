package flashsale

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: with stock and buyers in Redis exactly the stock is sold, one piece to a buyer;
// Redis, its Stream and the table agree, and nothing is left in Redis.
func TestLuaSellsExactlyTheStock(t *testing.T) {
	tempDir(t)
	s := redistest.Start(t)
	results, err := Run(t.Context(), Config{Stock: 50, Buyers: 200, Workers: 3, Items: 2, Strategies: []string{"lua"}, URLs: []string{fileURL("sqlite", "/unused"), s.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	if err := Check(results); err != nil || !r.Exact() || r.SecondPieces != 0 || len(r.times) != r.Stock {
		t.Errorf("got %+v, %v; want exactly the stock sold", r, err)
	}
	if r.Label != "lua, redis" || !strings.HasPrefix(r.URL, "redis://") || r.Written <= 0 {
		t.Errorf("got %+v, want it on Redis, and the time until the last order was written", r)
	}
	if keys := s.Keys(); len(keys) > 0 {
		t.Errorf("keys stayed behind: %v", keys)
	}
}

// Promise: when Redis goes away in the middle of a sale, the sale ends at once, and says why.
func TestASaleWhoseRedisGoesAwaySaysSo(t *testing.T) {
	tempDir(t)
	s := redistest.Start(t)
	kill := sync.OnceFunc(s.Kill)
	_, err := Run(t.Context(), Config{
		Stock: 20000, Buyers: 40000, Strategies: []string{"lua"}, URLs: []string{s.URL()},
		Progress: func(p Progress) {
			if p.Orders > 0 {
				kill()
			}
		},
	})
	if err == nil || !strings.Contains(err.Error(), "the Redis that alone has the stock does not answer any more") {
		t.Errorf("got %v", err)
	}
}

// Promise: a buyer whose answer was lost asks again and has the piece already, also when all is
// sold; a stock that is gone is an error, and not sold out.
func TestTheScriptAnswersABuyerWhoAsksAgain(t *testing.T) {
	server := redistest.Start(t)
	c, err := openCounter(server.URL(), "again")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.fill(t.Context(), []int{2}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		buyer int
		err   error
	}{{1, nil}, {1, errHasOne}, {2, nil}, {3, errSoldOut}, {1, errHasOne}, {3, errSoldOut}} {
		if err := c.take(t.Context(), order{buyer: want.buyer, worker: 1}); !errors.Is(err, want.err) {
			t.Errorf("request %d: got %v, want %v", i+1, err, want.err)
		}
	}
	if err := c.remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.take(t.Context(), order{buyer: 4, worker: 1}); err == nil || !strings.Contains(err.Error(), "the stock is gone") {
		t.Errorf("the stock is gone: got %v", err)
	}
}

// Promise: the URL of the locks is enough to sell in Redis, with its options; what is wrong with
// it is an error without the password.
func TestTheURLOfTheLocksLeadsToTheSaleInRedis(t *testing.T) {
	for url, want := range map[string]string{
		"redis:":                             "127.0.0.1:6379",
		"redis://h":                          "h:6379",
		"redis://h:7/3":                      "h:7",
		"redis://[::1]":                      "[::1]:6379",
		"redis://a,b:7?replicas=1":           "a:6379 b:7",
		"redis://a,b/?master=m":              "a:26379 b:26379",
		"redis://%2Frun%2Fredis.sock/0":      "/run/redis.sock",
		"rediss://u:p@h?server_name=example": "h:6379",
	} {
		o, err := redislock.ClientOption(url)
		if got := strings.Join(o.InitAddress, " "); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", url, got, err, want)
		}
		if secure := strings.HasPrefix(url, "rediss"); (o.TLSConfig != nil) != secure || secure && (o.Username != "u" || o.Password != "p") {
			t.Errorf("%s: got user %q, password %q, TLS %v", url, o.Username, o.Password, o.TLSConfig)
		}
	}
	port, release, err := testserver.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for url, want := range map[string]string{
		"redis://u:s3same@h/shop":                                                     "not a number",
		"rediss://u:s3same@h?ca=/missing":                                             "/missing",
		"redis://u:s3same@" + testserver.Address(port):                                "connection refused",
		strings.Replace(redistest.Start(t).URL(), "redis://", "redis://u:s3same@", 1): "WRONGPASS",
	} {
		c, err := openCounter(url, "sale")
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3same") {
			t.Errorf("got %v, want it to say %q, and no password", err, want)
		}
	}
}

// Promise: when a consumer is killed after it has written an order and before it has
// acknowledged the entry, another takes the entry over and does not write it again.
func TestAConsumerThatIsKilledLosesNoOrder(t *testing.T) {
	tempDir(t)
	urls := []string{redistest.Start(t).URL()}
	for _, database := range []string{"", mysqltest.Start(t).URL()} { // another test has PostgreSQL
		results, err := Run(t.Context(), Config{
			Stock: 20, Buyers: 60, Workers: 3, Strike: Kill, Strategies: []string{"lua"}, URLs: urls, Database: database,
		})
		if err != nil {
			t.Fatal(err)
		}
		takenOverAsPromised(t, results[0])
	}
}

func takenOverAsPromised(t *testing.T, r Result) {
	if !r.Exact() || r.TakenOver < 1 || r.Repeated < 1 {
		t.Errorf("got %+v, want exactly the stock sold, and an order that was taken over and there already", r)
	}
}

// Promise: the audit sees a buyer who is missing, or there twice, in Redis, in the Stream or in
// the table; a stock that differs; and an entry that nobody has acknowledged.
func TestTheAuditComparesRedisItsStreamAndTheTable(t *testing.T) {
	server := redistest.Start(t)
	for what, spoil := range map[string][]string{
		"":                                  nil,
		"a buyer is missing in Redis":       {"HDEL", "buyers", "1"},
		"a buyer is only in Redis":          {"HSET", "buyers", "9", "0"},
		"an order is only in the Stream":    {"XADD", "orders", "*", "buyer", "9", "worker", "1", "item", "0", "left", "1"},
		"an order is twice in the Stream":   {"XADD", "orders", "*", "buyer", "2", "worker", "1", "item", "0", "left", "1"},
		"an order is missing in the Stream": {"XTRIM", "orders", "MAXLEN", "2"},
		"the stock differs":                 {"HINCRBY", "stock", "0", "1"},
		"an entry is pending":               {"XREADGROUP", "GROUP", group, "somebody", "COUNT", "1", "STREAMS", "orders", ">"},
		"an order is missing in the table":  {"SQL", "DELETE FROM orders WHERE buyer = 2"},
		"the stock in the database differs": {"SQL", "UPDATE items SET stock = stock + 1"},
		"an order is only in the table":     {"SQL", "INSERT INTO orders (sale, buyer, worker, item) VALUES ('audit', 9, 1, 0)"},
		"a buyer has two in the table":      {"SQL", "INSERT INTO orders (sale, buyer, worker, item) VALUES ('other', 2, 1, 0)"},
	} {
		c, err := openCounter(server.URL(), "audit")
		if err != nil {
			t.Fatal(err)
		}
		db, err := openStore(place{File: filepath.Join(t.TempDir(), "shop.db"), Sale: "audit"})
		if err != nil {
			t.Fatal(err)
		}
		shut := make(chan struct{})
		close(shut)
		s := &shop{store: db, counter: c, shut: shut}
		if err := errors.Join(db.fill(t.Context(), []int{5}), c.fill(t.Context(), []int{5})); err != nil {
			t.Fatal(err)
		}
		for buyer := range 3 {
			if err := c.take(t.Context(), order{buyer: buyer, worker: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.consume(t.Context()); err != nil {
			t.Fatal(err)
		}
		switch {
		case spoil == nil:
		case spoil[0] == "SQL":
			_, err = db.db.ExecContext(t.Context(), spoil[1])
		default:
			if spoil[0] == "XREADGROUP" { // an entry can be read again
				_, err = server.Do("XGROUP", "SETID", c.orders, group, "0")
			}
			keys := map[string]string{"stock": c.stock, "buyers": c.buyers, "orders": c.orders}
			for i, word := range spoil {
				if key, ok := keys[word]; ok {
					spoil[i] = key
				}
			}
			_, wrong := server.Do(spoil...)
			err = errors.Join(err, wrong)
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		n, err := c.differences(t.Context(), db)
		if err != nil || (n == 0) != (what == "") {
			t.Errorf("%s: %d differences, %v", what, n, err)
		}
		if err := errors.Join(c.remove(t.Context()), db.db.Close()); err != nil {
			t.Error(err)
		}
		c.Close()
	}
}
