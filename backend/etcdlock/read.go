package etcdlock

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// Read reads a queue. It notes a follower first.
func (s *store) Read(ctx context.Context, name string, f exchange.Follower) (exchange.Snapshot, error) {
	key := s.queue(name)
	s.follow(f, ofQueue(name), key, clientv3.GetPrefixRangeEnd(key), exchange.Event{Type: exchange.QueueChanged, Queue: name})
	all, err := s.read(ctx, []string{name})
	if err != nil {
		return exchange.Snapshot{}, err
	}
	if k := all[0].Kind; k == "" || k == driver.Semaphore { // a change between is told when the watch begins
		s.follow(f, ofNumber(name), s.floor(name), "", exchange.Event{Type: exchange.QueueChanged, Queue: name})
	}
	return all[0], nil
}

// maxLeft is how many leases of one page are asked for how long they live. Tickets of others are shown
// with their TTL.
const maxLeft = 50

// read reads queues.
func (s *store) read(ctx context.Context, names []string) ([]exchange.Snapshot, error) {
	l := s.newLook(exchange.Session{}, nil, false)
	for _, name := range names {
		l.front(name)
	}
	if err := l.batch.run(ctx); err != nil {
		return nil, err
	}
	if l.wrong != nil {
		return nil, l.wrong
	}
	left := map[clientv3.LeaseID]time.Duration{}
	var snapshots []exchange.Snapshot
	for _, name := range names {
		q := l.queues[name]
		if err := s.readUntil(ctx, &q.line, name, func() bool { return false }); err != nil {
			return nil, err
		}
		for _, t := range q.Keys {
			if _, ok := left[t.lease]; ok || t.Foreign || len(left) >= maxLeft && t.Fixed == 0 {
				continue
			}
			var err error
			if left[t.lease], err = s.leftOf(ctx, t); err != nil {
				return nil, err
			}
		}
		snapshots = append(snapshots, l.snapshot(name, left))
	}
	return snapshots, nil
}

// snapshot shows a queue. Its kind and capacity are those of the first ticket of this library.
func (l *look) snapshot(name string, left map[clientv3.LeaseID]time.Duration) exchange.Snapshot {
	q, r := l.queues[name], exchange.Snapshot{Queue: driver.Queue{Name: name}}
	if len(q.Keys) > 0 {
		r.Kind, r.Capacity = driver.Mutex, 1
	}
	if i := slices.IndexFunc(q.Keys, func(t *ticket) bool { return !t.Foreign }); i >= 0 {
		r.Kind, r.Capacity = q.Keys[i].Kind, q.Keys[i].Capacity
	}
	if n := q.Permits(); n > 0 {
		r.Kind, r.Capacity, r.Resized = driver.Semaphore, n, !q.Number.Unset
	}
	version := fnv.New64a()
	fmt.Fprint(version, r.Kind, r.Capacity, r.Resized)
	for _, t := range q.Keys {
		of := *t
		if t.Foreign {
			of.Kind, of.Units, of.Capacity = r.Kind, r.Capacity, r.Capacity
		}
		p := q.Place(&of)
		m := driver.Member{ID: t.ID, Owner: t.Owner, Note: t.note, Units: of.Units, Held: p.Held, Since: t.Since, Fixed: t.Fixed > 0, Foreign: t.Foreign}
		if m.Held && q.wrong == nil { // else its token is not known
			m.Token = keys.Token(t.Order, q.Floor, l.all)
		}
		if !t.Foreign {
			var ok bool
			if m.Left, ok = left[t.lease]; !ok {
				m.Left = t.TTL
			}
		}
		end := clientv3.LeaseID(0)
		if m.Fixed {
			end = t.lease
		}
		fmt.Fprintln(version, "", m.ID, m.Units, m.Token, end)
		r.Members = append(r.Members, m)
	}
	r.Version = fmt.Sprintf("%x", version.Sum64())
	return r
}

// perList is how many queues one page has, and perCells how many cells, which are read with their values.
const (
	perList  = 100
	perCells = 40
)

// List reads all keys, since the order of keys is not that of the names of their queues, and then a page of
// queues. Keys without a lease are of programs that do not lock.
func (s *store) List(ctx context.Context, prefix, from string) (all []exchange.Snapshot, next string, err error) {
	names := map[string]bool{}
	key := s.namespace + prefix
	end := clientv3.GetPrefixRangeEnd(key)
	if key == "" {
		key, end = "\x00", "\x00" // all keys
	}
	for more := true; more; {
		err := fewer(perPage, func(n int64) error {
			b := s.batch()
			b.add(clientv3.OpGet(key, clientv3.WithRange(end), clientv3.WithLimit(n), clientv3.WithKeysOnly()), func(r *pb.RangeResponse) {
				for _, kv := range r.Kvs {
					key = string(kv.Key) + "\x00"
					name := strings.TrimPrefix(string(kv.Key), s.namespace)
					if at := strings.LastIndexByte(name, '/'); at > 0 && kv.Lease != 0 && name[:at] > from && strings.HasPrefix(name[:at], prefix) && driver.CheckName(name[:at]) == nil {
						names[strings.Clone(name[:at])] = true
					}
				}
				more = r.More
			})
			return b.run(ctx)
		})
		if err != nil {
			return nil, "", err
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	if len(sorted) > perList {
		sorted = sorted[:perList]
		next = sorted[perList-1]
	}
	if len(sorted) > 0 {
		all, err = s.readEach(ctx, sorted)
	}
	return all, next, err
}

// readEach is read without the queues that no answer has room for. Its error names one of these.
func (s *store) readEach(ctx context.Context, names []string) (all []exchange.Snapshot, err error) {
	all, err = s.read(ctx, names)
	half := len(names) / 2
	switch {
	case !tooLong(err):
		return all, err
	case half == 0:
		return nil, illegible(names[0], err)
	}
	all, err = s.readEach(ctx, names[:half])
	if err != nil && !driver.IsPermanent(err) {
		return nil, err
	}
	more, failed := s.readEach(ctx, names[half:])
	return append(all, more...), cmp.Or(err, failed)
}

// Cells reads a page. Of a cell that no answer has room for its error has the name.
func (s *store) Cells(ctx context.Context, prefix, from string) (names []string, next string, err error) {
	key := s.cell(prefix)
	if from != "" {
		key = s.cell(from) + "\x00"
	}
	last := ""
	read := func(of ...clientv3.OpOption) error {
		b := s.batch()
		b.add(clientv3.OpGet(key, append(of, clientv3.WithRange(clientv3.GetPrefixRangeEnd(s.cell(prefix))))...), func(r *pb.RangeResponse) {
			for _, kv := range r.Kvs {
				name := strings.TrimPrefix(string(kv.Key), s.cells())
				if last = name; readCell(kvs{kv}).Exists {
					names = append(names, name)
				}
				if r.More {
					next = name
				}
			}
		})
		return b.run(ctx)
	}
	err = fewer(perCells, func(n int64) error { return read(clientv3.WithLimit(n)) })
	if long := err; tooLong(long) {
		if err = read(clientv3.WithLimit(1), clientv3.WithKeysOnly()); err == nil {
			err = illegible(last, long)
		}
	}
	return names, next, err
}
