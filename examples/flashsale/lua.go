package flashsale

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// lua has stock and buyers in Redis. One script looks whether the buyer has a piece, takes
// one, and appends the order to a Stream: nothing comes between these. The buyer has an answer
// then. The consumers, one in each worker, write the orders to the database.
func lua(s *shop) (sell, error) {
	counter, err := s.counters()
	if err != nil {
		return nil, err
	}
	s.beside = s.consume
	return func(ctx context.Context, o order) (bool, error) {
		if err := s.think(ctx); err != nil {
			return false, err
		}
		return soldBy(counter.take(ctx, o))
	}, nil
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

// take takes a piece for a buyer, or returns errHasOne or errSoldOut. After an answer that is
// lost the buyer asks again, and has one.
func (c *counter) take(ctx context.Context, o order) error {
	keys := []string{c.stock, c.buyers, c.orders}
	answer, err := take.Exec(ctx, c.client, keys, []string{strconv.Itoa(o.item), strconv.Itoa(o.buyer), strconv.Itoa(o.worker)}).ToString()
	if err != nil {
		return err
	}
	switch answer {
	case "sold":
		return nil
	case "has one":
		return errHasOne
	case "sold out":
		return errSoldOut
	}
	return fmt.Errorf("the script answered %q", answer)
}
