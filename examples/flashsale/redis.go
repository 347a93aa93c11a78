package flashsale

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/tlsoption"
)

// counter is a sale in Redis: where buyers of strategy lua are served. Its keys are in one slot
// of a Cluster:
//
//	stock   a hash: what is left of each item
//	buyers  a hash: the item of each buyer who has a piece
//	orders  a Stream: one entry for each piece, for the consumers of a group
type counter struct {
	client                rueidis.Client
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
	o, err := redisOption(url)
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", redacted(url), err)
	}
	key := "{flash-sale/" + sale + "}/"
	return &counter{client, key + "stock", key + "buyers", key + "orders"}, nil
}

// redisOption reads the URL as package redislock does. That package hands out no client: the connections of its
// driver are for locks alone.
func redisOption(url string) (o rueidis.ClientOption, err error) {
	u, err := driver.ParseURL(url)
	if err != nil {
		return o, err
	}
	o = rueidis.ClientOption{
		ClientName:        "flash-sale",
		Dialer:            net.Dialer{Timeout: u.Duration("dial_timeout", 5*time.Second)},
		DisableCache:      true,
		DisableRetry:      true,
		PipelineMultiplex: -1, // one connection
	}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if o.SelectDB, err = strconv.Atoi(db); err != nil {
			return o, errors.New("the database of the Redis URL is not a number")
		}
	}
	if u.Scheme == "rediss" {
		if o.TLSConfig, err = tlsoption.Config(u); err != nil {
			return o, err
		}
	}
	port := "6379"
	if master := u.Text("master", ""); master != "" {
		port = "26379"
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: master, Dialer: o.Dialer, TLSConfig: o.TLSConfig,
			Username: u.Text("sentinel_user", ""), Password: u.Text("sentinel_password", ""),
		}
	}
	for _, host := range u.Hosts {
		if path, ok := driver.SocketPath(host); ok {
			host = path
			o.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return d.DialContext(ctx, "unix", path)
			}
		} else if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		o.InitAddress = append(o.InitAddress, host)
	}
	if len(o.InitAddress) == 0 {
		o.InitAddress = []string{net.JoinHostPort("127.0.0.1", port)}
	}
	return o, nil
}

func (c *counter) close() { c.client.Close() }

// answers is an error if Redis does not. The sale is over then: no other place has its stock, and a Redis that comes
// back may have lost pieces that were sold.
func (c *counter) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := c.client.Do(ctx, c.client.B().Ping().Build()).Error(); err != nil {
		return fmt.Errorf("the Redis that alone has the stock does not answer any more (%w), so the sale is over", err)
	}
	return nil
}

// fill makes the stock and the group of consumers.
func (c *counter) fill(ctx context.Context, parts []int) error {
	b := c.client.B()
	stock := b.Hset().Key(c.stock).FieldValue()
	for item, n := range parts {
		stock = stock.FieldValue(strconv.Itoa(item), strconv.Itoa(n))
	}
	if err := c.client.Do(ctx, stock.Build()).Error(); err != nil {
		return err
	}
	return c.client.Do(ctx, b.XgroupCreate().Key(c.orders).Group(group).Id("0").Mkstream().Build()).Error()
}

// remove takes the keys away.
func (c *counter) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := c.client.Do(ctx, c.client.B().Del().Key(c.stock, c.buyers, c.orders).Build()).Error(); err != nil {
		return fmt.Errorf("the keys %s, %s and %s stay behind: %w", c.stock, c.buyers, c.orders, err)
	}
	return nil
}

// entry is an order in the Stream.
type entry struct {
	id string
	order
	left int // what the stock of its item was before
}

func newEntry(e rueidis.XRangeEntry) (entry, error) {
	made := entry{id: e.ID}
	for name, to := range map[string]*int{"buyer": &made.buyer, "worker": &made.worker, "item": &made.item, "left": &made.left} {
		n, err := strconv.Atoi(e.FieldValues[name])
		if err != nil {
			return entry{}, fmt.Errorf("entry %s of the Stream: %s is %q", e.ID, name, e.FieldValues[name])
		}
		*to = n
	}
	return made, nil
}

func newEntries(all []rueidis.XRangeEntry) ([]entry, error) {
	entries := make([]entry, len(all))
	for i, e := range all {
		var err error
		if entries[i], err = newEntry(e); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// pending counts the entries that a consumer has read, and none has acknowledged.
func (c *counter) pending(ctx context.Context) (int, error) {
	answer, err := c.client.Do(ctx, c.client.B().Xpending().Key(c.orders).Group(group).Build()).ToArray()
	if err != nil {
		return 0, err
	}
	if len(answer) == 0 {
		return 0, errors.New("an empty answer to XPENDING")
	}
	n, err := answer[0].AsInt64()
	return int(n), err
}

// differences compares Redis, its Stream and the table. It counts the buyers who do not have
// one piece in each of them, the pieces by which the stocks differ, and the entries that
// nobody has acknowledged.
func (c *counter) differences(ctx context.Context, s *store) (n int, err error) {
	b := c.client.B()
	has := map[int][3]int{} // by buyer: in Redis, in the Stream, in the table
	add := func(buyer, where int) {
		of := has[buyer]
		of[where]++
		has[buyer] = of
	}
	buyers, err := c.client.Do(ctx, b.Hkeys().Key(c.buyers).Build()).AsStrSlice()
	if err != nil {
		return 0, err
	}
	for _, text := range buyers {
		buyer, err := strconv.Atoi(text)
		if err != nil {
			return 0, err
		}
		add(buyer, 0)
	}
	stream, err := c.client.Do(ctx, b.Xrange().Key(c.orders).Start("-").End("+").Build()).AsXRange()
	if err != nil {
		return 0, err
	}
	entries, err := newEntries(stream)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		add(e.buyer, 1)
	}
	ordered, err := s.pairs(ctx, "SELECT buyer, item FROM orders")
	if err != nil {
		return 0, err
	}
	for _, o := range ordered {
		add(o[0], 2)
	}
	for _, of := range has {
		if of != [3]int{1, 1, 1} {
			n++
		}
	}
	stock, err := c.client.Do(ctx, b.Hgetall().Key(c.stock).Build()).AsIntMap()
	if err != nil {
		return 0, err
	}
	rows, err := s.pairs(ctx, "SELECT id, stock FROM items")
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		apart := row[1] - int(stock[strconv.Itoa(row[0])])
		n += max(apart, -apart)
	}
	pending, err := c.pending(ctx)
	return n + pending, err
}
