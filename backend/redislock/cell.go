package redislock

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/follow"
)

// cellKeys are the keys of a cell: itself, its followers.
func (d *Driver) cellKeys(name string) (cell, followers string, err error) {
	if err := driver.CheckCell(name); err != nil {
		return "", "", err
	}
	base := "interlock:{" + d.prefix + name + "}:"
	return base + "c", base + "cf", nil
}

func (d *Driver) Load(ctx context.Context, name string) (driver.Cell, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Cell{}, err
	}
	key, _, err := d.cellKeys(name)
	if err != nil {
		return driver.Cell{}, err
	}
	m, err := d.do(ctx, d.client.B().Hmget().Key(key).Field("version", "exists", "value").Build())
	if err != nil {
		return driver.Cell{}, d.failed(ctx, err)
	}
	return decodeCell(m)
}

// Cells looks through the names of all keys, as Queues does, and then asks which of the cells
// were not deleted, many at a time.
func (d *Driver) Cells(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		names, err := d.names(ctx, prefix, "c", driver.CheckCell)
		if err != nil {
			yield("", err)
			return
		}
		for some := range slices.Chunk(names, 100) {
			exist := make([]bool, len(some))
			errs := make([]error, len(some))
			var wg sync.WaitGroup
			for i, name := range some {
				wg.Go(func() { exist[i], errs[i] = d.exists(ctx, name) })
			}
			wg.Wait()
			for i, name := range some {
				if illegible(errs[i]) { // that one is left out
					continue
				}
				if errs[i] != nil {
					yield("", errs[i])
					return
				}
				if exist[i] && !yield(name, nil) {
					return
				}
			}
		}
	}
}

func (d *Driver) exists(ctx context.Context, name string) (bool, error) {
	key, _, err := d.cellKeys(name)
	if err != nil {
		return false, err
	}
	m, err := d.do(ctx, d.client.B().Hmget().Key(key).Field("exists").Build())
	if err != nil {
		return false, d.failed(ctx, err)
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) != 1 {
		return false, errors.Join(errAnswer, err)
	}
	text, _ := parts[0].ToString()
	return text == "1", nil
}

func decodeCell(m rueidis.RedisMessage) (driver.Cell, error) {
	parts, err := m.ToArray()
	if err != nil || len(parts) != 3 {
		return driver.Cell{}, errors.Join(errAnswer, err)
	}
	if parts[0].IsNil() {
		return driver.Cell{}, nil
	}
	text, err := parts[0].ToString()
	if err != nil {
		return driver.Cell{}, errors.Join(errAnswer, err)
	}
	c := driver.Cell{}
	if c.Version, err = strconv.ParseUint(text, 10, 64); err != nil {
		return driver.Cell{}, errors.Join(errAnswer, err)
	}
	if exists, _ := parts[1].ToString(); exists == "1" {
		c.Exists = true
		if c.Value, err = parts[2].AsBytes(); err != nil {
			return driver.Cell{}, errors.Join(errAnswer, err)
		}
	}
	return c, nil
}

func (d *Driver) Swap(ctx context.Context, s driver.Swap) (driver.Cell, error) {
	if err := d.usable(ctx); err != nil {
		return driver.Cell{}, err
	}
	if err := driver.CheckID(s.ID); err != nil {
		return driver.Cell{}, err
	}
	key, followers, err := d.cellKeys(s.Name)
	if err != nil {
		return driver.Cell{}, err
	}
	value := ""
	if !s.Delete {
		if len(s.Value) > driver.MaxCell {
			return driver.Cell{}, driver.ErrTooLarge
		}
		value = string(s.Value)
	}
	memo := "interlock:{" + d.prefix + s.Name + "}:s:" + s.ID
	version, err := d.run1(ctx, call{swapScript, []string{key, memo, followers}, []string{strconv.FormatUint(s.Version, 10), digit(!s.Delete), value}})
	if err != nil {
		return driver.Cell{}, err
	}
	if version < 0 {
		return driver.Cell{}, driver.ErrConflict
	}
	c := driver.Cell{Version: uint64(version), Exists: !s.Delete}
	if c.Exists {
		c.Value = []byte(value)
	}
	return c, nil
}

func (d *Driver) Watch(ctx context.Context, name string, after uint64) (driver.Cell, error) {
	key, followers, err := d.cellKeys(name)
	if err != nil {
		return driver.Cell{}, err
	}
	c, err := d.Load(ctx, name)
	if err == nil && c.Version != after || driver.IsPermanent(err) {
		return c, err
	}
	return d.topics.Cell(ctx, name, after, func(t *follow.Topic) (driver.Cell, error) {
		m, err := d.run(ctx, call{watchScript, []string{key, followers}, []string{d.member(t), micros(followFor)}})
		if err != nil {
			return driver.Cell{}, err
		}
		return decodeCell(m)
	})
}
