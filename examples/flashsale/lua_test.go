package flashsale

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Promise: with stock and buyers in Redis exactly the stock is sold, one piece to a buyer;
// Redis, its Stream and the table agree, and nothing is left in Redis.
func TestLuaSellsExactlyTheStock(t *testing.T) {
	s := redistest.Start(t)
	r := sold(t, Config{Stock: 50, Buyers: 200, Workers: 3, Items: 2, Strategies: []string{"lua"}, URLs: []string{fileURL("sqlite", "/unused"), s.URL()}})[0]
	if r.SecondPieces != 0 || len(r.times) != r.Stock {
		t.Errorf("got %+v, want each order told once", r)
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
	errtest.Says(t, err, "the Redis that alone has the stock does not answer any more")
}

// Promise: a buyer whose answer was lost asks again and has the piece already, also when all is
// sold; a stock that is gone is an error, and not sold out.
func TestTheScriptAnswersABuyerWhoAsksAgain(t *testing.T) {
	server := redistest.Start(t)
	c := errtest.Must(openCounter(server.URL(), "again"))(t)
	defer c.Close()
	errtest.None(t, c.fill(t.Context(), []int{2}))
	for i, want := range []struct {
		buyer int
		err   error
	}{{1, nil}, {1, errHasOne}, {2, nil}, {3, errSoldOut}, {1, errHasOne}, {3, errSoldOut}} {
		if err := c.take(t.Context(), order{buyer: want.buyer, worker: 1}); !errors.Is(err, want.err) {
			t.Errorf("request %d: got %v, want %v", i+1, err, want.err)
		}
	}
	errtest.None(t, c.remove(t.Context()))
	errtest.Says(t, c.take(t.Context(), order{buyer: 4, worker: 1}), "the stock is gone")
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
	errtest.None(t, err)
	defer release()
	for url, want := range map[string]string{
		"redis://u:s3cret@h/shop":                                                     "not a number",
		"rediss://u:s3cret@h?ca=/missing":                                             "/missing",
		"redis://u:s3cret@" + testserver.Address(port):                                "connection refused",
		strings.Replace(redistest.Start(t).URL(), "redis://", "redis://u:s3cret@", 1): "WRONGPASS",
	} {
		c, err := openCounter(url, "sale")
		if err == nil {
			c.Close()
		}
		errtest.Says(t, err, want)
	}
}

// Promise: when a consumer is killed after it has written an order and before it has
// acknowledged the entry, another takes the entry over and does not write it again.
func TestAConsumerThatIsKilledLosesNoOrder(t *testing.T) {
	urls := []string{redistest.Start(t).URL()}
	for _, database := range []string{"", mysqltest.Start(t).URL()} { // another test has PostgreSQL
		takenOverAsPromised(t, sold(t, Config{
			Stock: 20, Buyers: 60, Workers: 3, Strike: Kill, Strategies: []string{"lua"}, URLs: urls, Database: database,
		})[0])
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
		c := errtest.Must(openCounter(server.URL(), "audit"))(t)
		db := errtest.Must(openStore(place{File: filepath.Join(t.TempDir(), "shop.db"), Sale: "audit"}))(t)
		s := &shop{store: db, counter: c}
		s.shut.Store(true)
		errtest.None(t, errors.Join(db.fill(t.Context(), []int{5}), c.fill(t.Context(), []int{5})))
		for buyer := range 3 {
			errtest.None(t, c.take(t.Context(), order{buyer: buyer, worker: 1}))
		}
		errtest.None(t, s.consume(t.Context()))
		if len(spoil) == 2 {
			errtest.Must(db.db.ExecContext(t.Context(), spoil[1]))(t)
		} else if len(spoil) > 2 {
			// So that an entry can be read again.
			errtest.Must(server.Do("XGROUP", "SETID", c.orders, group, "0"))(t)
			keys := map[string]string{"stock": c.stock, "buyers": c.buyers, "orders": c.orders}
			for i, word := range spoil {
				spoil[i] = cmp.Or(keys[word], word)
			}
			errtest.Must(server.Do(spoil...))(t)
		}
		n, err := c.differences(t.Context(), db)
		if err != nil || (n == 0) != (what == "") {
			t.Errorf("%s: %d differences, %v", what, n, err)
		}
		errtest.None(t, errors.Join(c.remove(t.Context()), db.db.Close()))
		c.Close()
	}
}
