package flashsale

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/driver"
)

// lua has stock and buyers in Redis. One script looks whether the buyer has a piece, takes
// one, and appends the order to a Stream: nothing comes between these. The buyer has an answer
// then. The consumers, one in each worker, write the orders to the database.
func lua(ctx context.Context, s *shop, o order) error {
	time.Sleep(work)
	return s.counter.take(ctx, o)
}

var take = rueidis.NewLuaScript(`
-- KEYS: stock, buyers, orders. ARGV: item, buyer, worker.
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then
	return 'has one'
end
local left = redis.call('HGET', KEYS[1], ARGV[1])
if not left then
	return redis.error_reply('ERR the stock is gone')
end
if tonumber(left) <= 0 then
	return 'sold out'
end
redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
redis.call('XADD', KEYS[3], '*', 'buyer', ARGV[2], 'worker', ARGV[3], 'item', ARGV[1], 'left', left)
return 'sold'
`)

// counter is a sale in Redis. Its keys are in one slot of a Cluster:
//
//	stock   a hash: what is left of each item
//	buyers  a hash: the item of each buyer who has a piece
//	orders  a Stream: one entry for each piece, for the consumers of a group
type counter struct {
	rueidis.Client
	stock, buyers, orders string
}

// group is the consumers of the Stream.
const group = "shop"

// isRedis reports whether a URL is that of a Redis server.
func isRedis(url string) bool {
	u, err := driver.ParseURL(url)
	return err == nil && (u.Scheme == "redis" || u.Scheme == "rediss")
}

// openCounter connects to the Redis of a URL, which may have options of Interlock.
func openCounter(url, sale string) (*counter, error) {
	o, err := redislock.ClientOption(url)
	if err != nil {
		return nil, err
	}
	o.ClientName = "flash-sale"
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", redacted(url), err)
	}
	key := "{flash-sale/" + sale + "}/"
	return &counter{client, key + "stock", key + "buyers", key + "orders"}, nil
}

// answers is an error if Redis does not. The sale is over then: no other place has its stock, and a Redis that comes
// back may have lost pieces that were sold.
func (c *counter) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := c.Do(ctx, c.B().Ping().Build()).Error(); err != nil {
		return fmt.Errorf("the Redis that alone has the stock does not answer any more (%w), so the sale is over", err)
	}
	return nil
}

// fill makes the stock and the group of consumers.
func (c *counter) fill(ctx context.Context, parts []int) error {
	stock := c.B().Hset().Key(c.stock).FieldValue()
	for item, n := range parts {
		stock = stock.FieldValue(strconv.Itoa(item), strconv.Itoa(n))
	}
	if err := c.Do(ctx, stock.Build()).Error(); err != nil {
		return err
	}
	return c.Do(ctx, c.B().XgroupCreate().Key(c.orders).Group(group).Id("0").Mkstream().Build()).Error()
}

// remove takes the keys away.
func (c *counter) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := c.Do(ctx, c.B().Del().Key(c.stock, c.buyers, c.orders).Build()).Error(); err != nil {
		return fmt.Errorf("the keys %s, %s and %s stay behind: %w", c.stock, c.buyers, c.orders, err)
	}
	return nil
}

// take takes a piece for a buyer, or returns errHasOne or errSoldOut. After an answer that is
// lost the buyer asks again, and has one.
func (c *counter) take(ctx context.Context, o order) error {
	keys := []string{c.stock, c.buyers, c.orders}
	answer, err := take.Exec(ctx, c, keys, []string{strconv.Itoa(o.item), strconv.Itoa(o.buyer), strconv.Itoa(o.worker)}).ToString()
	switch answer {
	case "has one":
		return errHasOne
	case "sold out":
		return errSoldOut
	}
	return err
}

const (
	// takeOverAfter is how long a consumer may have an entry before another takes it over. One
	// that is only slow loses nothing by that: each order is written once.
	takeOverAfter = 2 * time.Second

	// look is how long a consumer waits for entries before it looks for some to take over.
	look = 100 * time.Millisecond
)

// consume writes the orders of the Stream to the database. An entry is acknowledged when its
// order is committed. A consumer that dies in between leaves it to another one, which finds
// the order by its key and does not write it again. consume returns when shut is closed and
// every entry is acknowledged.
func (s *shop) consume(ctx context.Context) error {
	c, name := s.counter, fmt.Sprintf("worker %d, process %d", s.Worker, os.Getpid())
	claim := c.B().Xautoclaim().Key(c.orders).Group(group).Consumer(name).MinIdleTime(fmt.Sprint(takeOverAfter.Milliseconds())).Start("0-0").Count(16).Build().Pin()
	read := c.B().Xreadgroup().Group(group, name).Count(16).Block(look.Milliseconds()).Streams().Key(c.orders).Id(">").Build().Pin()
	for {
		last := s.shut.Load() // no entry is added from then on
		claimed, err := c.Do(ctx, claim).ToArray()
		if err != nil || len(claimed) < 2 {
			return fmt.Errorf("read the Stream: %w", cmp.Or(err, errors.New("a short answer")))
		}
		entries, err := claimed[1].AsXRange()
		s.TakenOver += len(entries)
		if err == nil && len(entries) == 0 {
			var streams map[string][]rueidis.XRangeEntry
			if streams, err = c.Do(ctx, read).AsXRead(); rueidis.IsRedisNil(err) {
				err = nil
			}
			entries = streams[c.orders]
		}
		if err != nil {
			return fmt.Errorf("read the Stream: %w", err)
		}
		for _, e := range entries {
			if err := s.record(ctx, e); err != nil {
				return fmt.Errorf("write the order of buyer %s: %w", e.FieldValues["buyer"], err)
			}
		}
		if last && len(entries) == 0 {
			if n, err := c.pending(ctx); n == 0 || err != nil {
				return err
			}
		}
	}
}

// record writes an order of the Stream, once, and acknowledges it. Redis has decided that there is a piece: that
// the table agrees is seen by the audit.
func (s *shop) record(ctx context.Context, e rueidis.XRangeEntry) error {
	var o order
	var left int
	for name, to := range map[string]*int{"buyer": &o.buyer, "worker": &o.worker, "item": &o.item, "left": &left} {
		var err error
		if *to, err = strconv.Atoi(e.FieldValues[name]); err != nil {
			return err
		}
	}
	_, repeated, err := s.done.Run(ctx, s.db, 10, s.key(o.buyer), func(ctx context.Context, tx *sql.Tx) ([]byte, error) {
		_, err := tx.ExecContext(ctx, s.sql("UPDATE items SET stock = stock - 1 WHERE id = ?"), o.item)
		return nil, errors.Join(err, s.placeOrder(ctx, tx, o))
	})
	if err != nil {
		return err
	}
	if repeated {
		s.Repeated++
	}
	s.Written = time.Now()
	if _, err := s.struck(o.item, left); err != nil {
		return err
	}
	return s.counter.Do(ctx, s.counter.B().Xack().Key(s.counter.orders).Group(group).Id(e.ID).Build()).Error()
}

// pending counts the entries that a consumer has read, and none has acknowledged.
func (c *counter) pending(ctx context.Context) (int, error) {
	answer, err := c.Do(ctx, c.B().Xpending().Key(c.orders).Group(group).Build()).ToArray()
	if err != nil || len(answer) == 0 {
		return 0, err
	}
	n, err := answer[0].AsInt64()
	return int(n), err
}

// differences compares Redis, its Stream and the table. It counts the buyers who do not have
// one piece in each of them, the pieces by which the stocks differ, and the entries that
// nobody has acknowledged.
func (c *counter) differences(ctx context.Context, s *store) (n int, err error) {
	buyers, err0 := c.Do(ctx, c.B().Hkeys().Key(c.buyers).Build()).AsStrSlice()
	stream, err1 := c.Do(ctx, c.B().Xrange().Key(c.orders).Start("-").End("+").Build()).AsXRange()
	stock, err2 := c.Do(ctx, c.B().Hgetall().Key(c.stock).Build()).AsIntMap()
	n, err3 := c.pending(ctx)
	ordered, err4 := s.triples(ctx, "SELECT buyer, 0, 0 FROM orders")
	rows, err5 := s.triples(ctx, "SELECT id, stock, 0 FROM items")
	if err := errors.Join(err0, err1, err2, err3, err4, err5); err != nil {
		return 0, err
	}
	const redis, inStream, table = 1, 1 << 20, 1 << 40 // pieces of a buyer there
	has := map[string]int{}
	for _, buyer := range buyers {
		has[buyer] += redis
	}
	for _, e := range stream {
		has[e.FieldValues["buyer"]] += inStream
	}
	for _, o := range ordered {
		has[strconv.Itoa(o[0])] += table
	}
	for _, pieces := range has {
		if pieces != redis+inStream+table {
			n++
		}
	}
	for _, row := range rows {
		apart := row[1] - int(stock[strconv.Itoa(row[0])])
		n += max(apart, -apart)
	}
	return n, nil
}
