package redislock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// cellKeys are the keys of a cell: itself, its followers.
func (s *store) cellKeys(name string) (cell, followers string) {
	base := "interlock:{" + s.prefix + name + "}:"
	return base + "c", base + "cf"
}

func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (driver.Cell, error) {
	key, followers := s.cellKeys(name)
	keys := []string{key, followers}
	if f.Mailbox == "" {
		keys = keys[:1] // which can be read while a Cluster moves it
	}
	m, err := s.run(ctx, call{watchScript, keys, []string{member(f), micros(followFor), strconv.Itoa(driver.MaxCell + 1)}})
	if err != nil && illegible(err) {
		err = driver.Permanent(fmt.Errorf("redis: what is kept of %q cannot be read: %w (this forgets it: redis-cli DEL %s)", name, err, key))
	}
	if err != nil {
		return driver.Cell{}, err
	}
	return decodeCell(m)
}

// Cells asks which of the cells were not deleted, many at the same time, and leaves out those that
// cannot be read.
func (s *store) Cells(ctx context.Context, prefix, from string) (names []string, next string, err error) {
	some, next, err := s.page(ctx, prefix, from, "c", driver.CheckCell)
	if err != nil {
		return nil, "", err
	}
	exist, errs := make([]bool, len(some)), make([]error, len(some))
	var wg sync.WaitGroup
	for i, name := range some {
		wg.Go(func() { exist[i], errs[i] = s.exists(ctx, name) })
	}
	wg.Wait()
	for i, name := range some {
		switch {
		case errs[i] != nil && !illegible(errs[i]):
			return nil, "", errs[i]
		case exist[i]:
			names = append(names, name)
		}
	}
	return names, next, nil
}

func (s *store) exists(ctx context.Context, name string) (bool, error) {
	key, _ := s.cellKeys(name)
	m, err := s.do(ctx, s.client.B().Hmget().Key(key).Field("exists").Build())
	if err != nil {
		return false, err
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) != 1 {
		return false, errors.Join(errAnswer, err)
	}
	text, _ := parts[0].ToString()
	return text == "1", nil
}

func decodeCell(m rueidis.RedisMessage) (c driver.Cell, err error) {
	parts, err := m.ToArray()
	if err != nil || len(parts) != 3 {
		return c, errors.Join(errAnswer, err)
	}
	if parts[0].IsNil() {
		return c, nil
	}
	c.Version, err = parts[0].AsUint64()
	if exists, _ := parts[1].ToString(); exists == "1" && err == nil {
		c.Exists = true
		c.Value, err = parts[2].AsBytes()
	}
	if err != nil {
		return driver.Cell{}, errors.Join(errAnswer, err)
	}
	return c, nil
}

func (s *store) Swap(ctx context.Context, w driver.Swap) (driver.Cell, error) {
	key, followers := s.cellKeys(w.Name)
	memo := "interlock:{" + s.prefix + w.Name + "}:s:" + w.ID
	version, err := s.run1(ctx, call{swapScript, []string{key, memo, followers}, []string{strconv.FormatUint(w.Version, 10), digit(!w.Delete), string(w.Value)}})
	if err != nil {
		return driver.Cell{}, err
	}
	if version < 0 {
		return driver.Cell{}, driver.ErrConflict
	}
	c := driver.Cell{Version: uint64(version), Exists: !w.Delete}
	if c.Exists {
		c.Value = append([]byte{}, w.Value...)
	}
	return c, nil
}
