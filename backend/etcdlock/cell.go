package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// The value of a cell, behind a first byte. A cell that was deleted keeps its key, and so its version,
// which is the revision of the last change.
const (
	deleted = "0"
	exists  = "1"
)

func (s *store) cell(name string) string { return s.cells() + name }

func readCell(all kvs) (c driver.Cell) {
	if len(all) > 0 {
		c.Version = uint64(all[0].ModRevision)
		if v := all[0].Value; len(v) > 0 && string(v[:1]) == exists {
			c.Exists, c.Value = true, v[1:]
		}
	}
	return c
}

// Load reads a cell. It notes a follower first.
func (s *store) Load(ctx context.Context, name string, f exchange.Follower) (c driver.Cell, err error) {
	s.follow(f, ofCell(name), s.cell(name), "", exchange.Event{Type: exchange.CellChanged, Cell: name})
	all, err := s.get(ctx, s.cell(name))
	return readCell(all), err
}

// Swap changes a cell, and a key that says for some time that it has. A conflict need not be remembered:
// versions never come back.
func (s *store) Swap(ctx context.Context, w driver.Swap) (driver.Cell, error) {
	lease, err := s.spare(ctx, driver.SwapMemory)
	if err != nil {
		return driver.Cell{}, err
	}
	key, done := s.cell(w.Name), s.swap(w.ID)
	value := exists + string(w.Value)
	if w.Delete {
		value = deleted
	}
	got, err := s.change(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(done), "=", 0), clientv3.Compare(clientv3.ModRevision(key), "=", int64(w.Version))},
		[]clientv3.Op{clientv3.OpPut(key, value), clientv3.OpPut(done, "", clientv3.WithLease(lease))},
		[]clientv3.Op{clientv3.OpGet(done), clientv3.OpGet(key)})
	if err != nil {
		return driver.Cell{}, s.forget(err)
	}
	version := got.Header.Revision
	if !got.Succeeded {
		first := got.Responses[0].GetResponseRange().Kvs
		if len(first) == 0 {
			return readCell(got.Responses[1].GetResponseRange().Kvs), driver.ErrConflict
		}
		version = first[0].ModRevision
	}
	c := driver.Cell{Version: uint64(version), Exists: !w.Delete}
	if c.Exists {
		c.Value = w.Value
	}
	return c, nil
}
