package etcdlock

import (
	"bytes"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
	"github.com/interlock-go/interlock/driver/exchange/keys"
)

// FuzzTicket: whatever stands in a queue, each ticket has a place, in a bounded number of steps, and is shown.
func FuzzTicket(f *testing.F) {
	good := ticket{row: row{Key: keys.Key{ID: strings.Repeat("a", 32), Kind: driver.Mutex, Units: 1, Capacity: 1}, Session: strings.Repeat("b", 32), TTL: time.Second}}
	f.Add("q/", "x", []byte(good.value()), []byte(`{"number":{"permits":3,"set":7}}`), int64(8), int64(9))
	f.Add("q/", "\xff", []byte("\x00{"), []byte(`{"floor":[{"after":-1,"add":2251799813685247}]}`), int64(-1), int64(1<<62))
	f.Fuzz(func(t *testing.T, key, second string, value, kept []byte, created, other int64) {
		const queueName = "q"
		l := &look{queues: map[string]*queue{queueName: {}}}
		q := l.queues[queueName]
		var l2 layout
		k, err := readKept(kvs{{Key: []byte("{floor}/q"), Value: kept, ModRevision: 9}})
		q.Kept, q.wrong = k, err
		l2.readLine(&q.line, queueName, &pb.RangeResponse{Kvs: kvs{
			{Key: []byte(key), Value: value, CreateRevision: created, ModRevision: created, Lease: 5},
			{Key: []byte(l2.queue(queueName) + second), Value: value, CreateRevision: other, ModRevision: other},
		}})
		for _, t := range q.Keys {
			p := q.Place(t)
			_, _ = p.Blocker()
			_, _, _, _ = keepers(p), q.Unfit(t), q.Full(), q.MarkFor(q.mark, t.ID)
			_ = l2.keys(exchange.Session{ID: good.Session}, exchange.Ref{Queue: queueName, ID: good.ID, Tag: t.tag(p)})
		}
		for _, m := range l.snapshot(queueName, map[clientv3.LeaseID]time.Duration{}).Members {
			if m.Token >= driver.MaxToken && created < 1<<50 && other < 1<<50 && min(created, other) > 0 {
				t.Errorf("a token of %d", m.Token)
			}
		}
	})
}

// FuzzKept: what is read is written as it is.
func FuzzKept(f *testing.F) {
	f.Add([]byte(`{"floor":[{"after":5,"add":7}]}`), int64(9))
	f.Add([]byte(`{"number":{"permits":3,"set":7,"held":5,"perhaps":7},"floor":[{"after":5,"add":7}]}`), int64(9))
	f.Fuzz(func(t *testing.T, value []byte, written int64) {
		k, err := readKept(kvs{{Value: value, ModRevision: written}})
		if err != nil {
			return
		}
		again, err := readKept(kvs{{Value: []byte(text(k)), ModRevision: written}})
		if err != nil || text(again) != text(k) {
			t.Errorf("%s is %s, and then %s, %v", value, text(k), text(again), err)
		}
	})
}

// FuzzDemand: a change in a mailbox is a demand for a ticket, or the end of a session, or nothing.
func FuzzDemand(f *testing.F) {
	f.Add("s/id", []byte("2"), false)
	f.Add("s", []byte(""), true)
	f.Fuzz(func(t *testing.T, key string, value []byte, deleted bool) {
		ev := &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte("m/" + key), Value: value}}
		if deleted {
			ev.Type = mvccpb.DELETE
		}
		got, ok := new(store).event("m/", ev)
		if ok && got.Type != exchange.SessionOver && got.Type != exchange.Removed && (got.Type != exchange.Demanded || got.Demand < driver.Wanted || got.Demand > driver.Evict) {
			t.Errorf("%q, %q is %+v", key, value, got)
		}
		m := readMark(kvs{ev.Kv})
		if c := readCell(kvs{ev.Kv}); c.Exists && !bytes.HasSuffix(value, c.Value) {
			t.Errorf("%q is the cell %+v", value, c)
		}
		_ = text(m)
	})
}

// FuzzShape: what has a shape can be decoded, or is an error, and has no more elements than are allowed.
func FuzzShape(f *testing.F) {
	txn := &pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 5}, Succeeded: true, Responses: []*pb.ResponseOp{
		{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: kvs{{Key: []byte("k"), Value: []byte("v")}}, Count: 1}}},
		{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{Responses: []*pb.ResponseOp{{}}}}},
	}}
	good, err := txn.Marshal()
	if left := 20; err != nil || !txnShape.fits(good, &left) {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Repeat([]byte{0x1a, 2, 0x22, 0}, 100))
	f.Fuzz(func(t *testing.T, m []byte) {
		left := 20
		if !txnShape.fits(m, &left) {
			return
		}
		var got pb.TxnResponse
		if got.Unmarshal(m) != nil {
			return
		}
		n := 0
		for _, r := range got.Responses {
			n += 1 + len(r.GetResponseRange().GetKvs())
		}
		if n > 20 {
			t.Errorf("%d elements", n)
		}
	})
}
