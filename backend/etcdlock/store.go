package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// store is the exchanges with one cluster. The row of a session is its lease, to which the keys of its
// tickets are attached; a ticket with an end of its own has another lease. A queue has no row: who is
// held follows from the keys that stand, so that the end of a lease, and a change by another program,
// settle it at once.
type store struct {
	layout
	client  *clientv3.Client
	own     bool   // Close closes the client
	clear   bool   // passwords are sent in clear text
	wires   *wires // nil: the client is another one's
	kv      clientv3.KV
	lease   pb.LeaseClient
	watcher clientv3.Watcher

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	exchanges atomic.Uint64
	heard     atomic.Int64 // when the last exchange was answered, as a driver.Instant
	idle      atomic.Pointer[alive]
	watches   watches
	veryLong  int64 // from so many keys on a queue is very long

	mu     sync.Mutex
	spares map[time.Duration]spare
	ends   map[clientv3.LeaseID]driver.Instant // of fixed tickets that this client has made so

	detaching map[string]bool   // IDs of tickets whose Detach may still take effect
	seats     map[string]sitter // a guess
}

var (
	_ exchange.Counter  = (*store)(nil)
	_ exchange.Detacher = (*store)(nil)
	_ exchange.Raiser   = (*store)(nil)
	_ exchange.Resizer  = (*store)(nil)
	_ exchange.Traited  = (*store)(nil)
)

func newStore(client *clientv3.Client, c config, own bool) (*store, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	conn := client.ActiveConnection()
	s := &store{
		layout: c.layout(), client: client, own: own, clear: c.clear, wires: c.wires, spares: map[time.Duration]spare{}, ends: map[clientv3.LeaseID]driver.Instant{}, detaching: map[string]bool{}, seats: map[string]sitter{},
		// The client's own would wait for a server that is not there, and repeat what fails.
		kv: clientv3.NewKVFromKVClient(soundKV{pb.NewKVClient(conn)}, nil), lease: pb.NewLeaseClient(conn),
		watcher: clientv3.NewWatchFromWatchClient(soundWatch{pb.NewWatchClient(conn)}, client),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.watches.init()
	s.veryLong = veryLong
	return s, nil
}

// Traits: all exchanges share a connection. No event of a death has to be asked for, since the end of a
// lease removes its keys, and these are watched.
func (s *store) Traits() exchange.Traits {
	return exchange.Traits{Bounded: true, Listens: true, LookSettles: true, WithSession: true, PerRenew: math.MaxInt,
		Together: perShared, Patience: maxWait, OnePerQueue: true}
}

// Exchanges counts requests, those of watches included.
func (s *store) Exchanges() uint64 { return s.exchanges.Load() }

// maxOps is how many operations one transaction has; a server allows 128 unless it is told otherwise.
const maxOps = 100

// do makes an exchange, which ends with the store.
func do[T any](ctx context.Context, s *store, exchange func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.exchanges.Add(1)
	got, err := exchange(ctx)
	switch {
	case err == nil:
		s.heard.Store(int64(driver.Now()))
	case ctx.Err() != nil:
		return got, ctx.Err()
	}
	return got, rpctypes.Error(err)
}

// change makes a transaction.
func (s *store) change(ctx context.Context, when []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	return do(ctx, s, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.kv.Txn(ctx).If(when...).Then(then...).Else(otherwise...).Commit()
	})
}

// grant makes a lease; 0: the server chooses its ID. The server may choose a longer time.
func (s *store) grant(ctx context.Context, id clientv3.LeaseID, ttl int64) (clientv3.LeaseID, error) {
	got, err := do(ctx, s, func(ctx context.Context) (*pb.LeaseGrantResponse, error) {
		return s.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: ttl})
	})
	if err != nil {
		return 0, err
	}
	return clientv3.LeaseID(got.ID), nil
}

// grantFixed makes the lease of a ticket that gets a fixed end. The lease has a second more, since the
// server says in whole seconds how long it lives.
func (s *store) grantFixed(ctx context.Context, d time.Duration) (clientv3.LeaseID, error) {
	now := driver.Now()
	id, err := s.grant(ctx, 0, seconds(d)+1)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		maps.DeleteFunc(s.ends, func(_ clientv3.LeaseID, end driver.Instant) bool { return end < now })
		s.ends[id] = now.Add(d)
	}
	return id, err
}

// grantRest makes a lease that ends when another one does that is not extended any more, or a second
// later, and not later than one TTL from now.
func (s *store) grantRest(ctx context.Context, other clientv3.LeaseID, ttl time.Duration) (clientv3.LeaseID, error) {
	left, err := s.left(ctx, other)
	if err != nil {
		return 0, err
	}
	return s.grant(ctx, 0, min(seconds(left)+1, seconds(ttl)))
}

// revoke ends a lease that is of no use any more. If it fails, the lease ends by itself.
func (s *store) revoke(ctx context.Context, id clientv3.LeaseID) error {
	_, err := do(ctx, s, func(ctx context.Context) (*pb.LeaseRevokeResponse, error) {
		return s.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)})
	})
	return err
}

func (s *store) timeToLive(ctx context.Context, id clientv3.LeaseID) (*pb.LeaseTimeToLiveResponse, error) {
	return do(ctx, s, func(ctx context.Context) (*pb.LeaseTimeToLiveResponse, error) {
		return s.lease.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(id)})
	})
}

// left is for how long a lease lives on, at least.
func (s *store) left(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	got, err := s.timeToLive(ctx, id)
	if err != nil {
		return 0, err
	}
	return max(0, time.Duration(got.TTL)*time.Second), nil
}

// leftOf is for how long a ticket stands if nothing extends its lease, or until its fixed end.
func (s *store) leftOf(ctx context.Context, t *ticket) (time.Duration, error) {
	if t.Fixed == 0 {
		return s.left(ctx, t.lease)
	}
	s.mu.Lock()
	end, known := s.ends[t.lease]
	s.mu.Unlock()
	if known {
		return max(0, end.Sub(driver.Now())), nil
	}
	left, err := s.left(ctx, t.lease)
	return max(0, left-time.Second), err
}

// spare is a lease for keys that are of use for some time only.
type spare struct {
	id    clientv3.LeaseID
	until driver.Instant // until when it may be used: it lives on for as long again
}

// spare returns a lease that lives for that time, at least. Keys of one time share their leases, since
// many leases make a cluster slow.
func (s *store) spare(ctx context.Context, d time.Duration) (clientv3.LeaseID, error) {
	s.mu.Lock()
	have := s.spares[d]
	s.mu.Unlock()
	now := driver.Now()
	if now < have.until {
		return have.id, nil
	}
	id, err := s.grant(ctx, 0, seconds(2*d))
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spares[d] = spare{id, now.Add(d)}
	return id, nil
}

// forget is called with the error of a change that has used a spare lease, which somebody may have revoked.
func (s *store) forget(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.mu.Lock()
		defer s.mu.Unlock()
		clear(s.spares)
		return fmt.Errorf("a lease of this client was revoked: %v", err)
	}
	return err
}

// Begin grants the lease, and makes the key of the session, by whose end the client hears of that of
// the lease.
func (s *store) Begin(ctx context.Context, o exchange.Session) (begun exchange.Begun, err error) {
	lease, err := s.grant(ctx, leaseOf(o.ID), seconds(o.TTL))
	if errors.Is(err, rpctypes.ErrLeaseExist) { // by a copy of this request: nobody else knows the ID yet
		lease, err = leaseOf(o.ID), nil
	}
	if err != nil {
		return begun, err
	}
	_, err = s.change(ctx, nil, []clientv3.Op{clientv3.OpPut(s.session(o), o.Owner, clientv3.WithLease(lease))}, nil)
	if err == nil && s.logsIn() { // now, since the first heartbeat has less time
		_, err = s.keepAlive(ctx, lease)
	}
	if err != nil {
		return begun, err
	}
	got, err := s.timeToLive(ctx, lease) // servers have a shortest one, by their election timeout
	switch {
	case err != nil:
	case got.TTL < 0: // 0: it has less than a second left
		err = rpctypes.ErrLeaseNotFound
	case got.GrantedTTL < max(1, got.TTL) || got.GrantedTTL > math.MaxInt64/int64(time.Second):
		err = fmt.Errorf("a lease of %d s is said to have %d s left", got.GrantedTTL, got.TTL)
	default:
		begun.TTL = time.Duration(got.GrantedTTL) * time.Second
	}
	return begun, err
}

// Close ends what is under way.
func (s *store) Close() {
	s.cancel()
	_ = s.watcher.Close()
	if s.own {
		_ = s.client.Close() // it says that its context has ended
	}
}

// kvs is what a Get has found.
type kvs = []*mvccpb.KeyValue

// batch is questions that are asked together, in as few transactions as possible.
type batch struct {
	s     *store
	ops   []clientv3.Op
	take  []func(*pb.RangeResponse)
	terms map[uint64]bool // of Raft, in the answers

	first, revision int64 // of the first answer, and of the last one
}

func (s *store) batch() *batch { return &batch{s: s, terms: map[uint64]bool{}} }

// get reads one key.
func (s *store) get(ctx context.Context, key string, opts ...clientv3.OpOption) (found kvs, err error) {
	b := s.batch()
	b.add(clientv3.OpGet(key, opts...), func(r *pb.RangeResponse) { found = r.Kvs })
	return found, b.run(ctx)
}

// add asks for a range of keys.
func (b *batch) add(op clientv3.Op, take func(*pb.RangeResponse)) {
	b.ops, b.take = append(b.ops, op), append(b.take, take)
}

// get asks for one key.
func (b *batch) get(key string, take func(kvs)) {
	b.add(clientv3.OpGet(key), func(r *pb.RangeResponse) { take(r.Kvs) })
}

// together has the next questions be of one transaction.
func (b *batch) together(n int) {
	for len(b.ops)%maxOps+n > maxOps {
		b.get(b.s.floor(""), func(kvs) {})
	}
}

// run asks, and forgets the questions. What a transaction says was so at one time.
func (b *batch) run(ctx context.Context) error {
	for at := 0; at < len(b.ops); at += maxOps {
		ops := b.ops[at:min(at+maxOps, len(b.ops))]
		got, err := b.s.change(ctx, nil, ops, nil)
		if err != nil {
			return err
		}
		b.terms[got.Header.RaftTerm], b.revision = true, got.Header.Revision
		if b.first == 0 {
			b.first = b.revision
		}
		for i, r := range got.Responses {
			b.take[at+i](r.GetResponseRange())
		}
	}
	b.ops, b.take = nil, nil
	return nil
}
