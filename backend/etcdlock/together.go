package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// together has changes of different queues share transactions while several are under way: each transaction costs a
// cluster a proposal, whatever is in it. A change is a part of one, with its own conditions and its own outcome.
//
//   - A server compares the conditions of all parts before it changes anything, and all that they create gets one
//     revision. So a transaction has one part of a queue at most, and none of another queue whose tickets are read with
//     those of the first: who reads page by page, from revision to revision, would miss some.
//   - What can share no transaction with what waits is not held up.
//   - A server does not check rights, nor whether the database is full, for what is inside a part. So the operations are
//     named once more where they never run: as what to do if a condition fails, of a transaction that has none.
//   - A transaction waits for others no longer than patience, and not at all if it is full: those under way may take
//     long, or be stuck at a member that is dead.
type together struct {
	patience time.Duration

	mu       sync.Mutex
	underWay int     // transactions
	next     *shared // the transaction that waits; nil: none
}

const (
	perClient = 4                    // how many transactions are under way before changes wait for each other
	perShared = maxOps / 5           // how many parts a transaction has: each has up to five operations
	maxWait   = 5 * time.Millisecond // a part of what a cluster takes whose members are far from each other
)

// shared is a transaction of parts.
type shared struct {
	parts []*part
	late  *time.Timer   // begins it
	done  chan struct{} // err, and got of the parts, are there
	err   error
}

// part is a change.
type part struct {
	ctx             context.Context
	queue           string
	when            []clientv3.Cmp
	then, otherwise []clientv3.Op
	got             *clientv3.TxnResponse
}

// changeIn is change, for a change that has to do with one queue and the tickets of that.
func (s *store) changeIn(ctx context.Context, queue string, when []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	p := &part{ctx: ctx, queue: queue, when: when, then: then, otherwise: otherwise}
	of := s.share(p)
	if of == nil {
		defer s.ended()
		return s.change(ctx, when, then, otherwise)
	}
	select {
	case <-of.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case notMade(of.err):
		return s.change(ctx, when, then, otherwise)
	case p.got == nil:
		return nil, cmp.Or(of.err, ctx.Err())
	}
	return p.got, nil
}

// share adds a part to the transaction that waits. It returns nil if the part is to be a transaction of its own: few
// are under way, or the part can share none with those that wait.
func (s *store) share(p *part) *shared {
	g := &s.together
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.underWay < perClient || g.next != nil && slices.ContainsFunc(g.next.parts, func(o *part) bool { return near(o.queue, p.queue) }) {
		g.underWay++
		return nil
	}
	if g.next == nil {
		next := &shared{done: make(chan struct{})}
		next.late = time.AfterFunc(g.patience, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.next == next {
				s.begin()
			}
		})
		g.next = next
	}
	of := g.next
	if of.parts = append(of.parts, p); len(of.parts) == perShared {
		s.begin()
	}
	return of
}

// near: who reads one of two queues reads tickets of the other: it is the same, or below, such as foo/bar below foo.
func near(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a) && (len(a) == len(b) || b[len(a)] == '/')
}

// ended is called when a transaction has ended.
func (s *store) ended() {
	g := &s.together
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.underWay--; g.next != nil && g.underWay < perClient {
		s.begin()
	}
}

// begin makes the transaction that waits. The mutex of together is held.
func (s *store) begin() {
	of := s.together.next
	of.late.Stop()
	s.together.next = nil
	s.together.underWay++
	go func() {
		defer s.ended()
		defer close(of.done)
		of.err = s.makeTogether(of.parts)
	}()
}

// makeTogether makes a transaction of parts. It ends when all their callers have given up; what those want
// that have done so before it begins is not made.
func (s *store) makeTogether(parts []*part) error {
	parts = slices.DeleteFunc(parts, func(p *part) bool { return p.ctx.Err() != nil })
	if len(parts) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var callers atomic.Int32
	callers.Add(int32(len(parts)))
	var ops, named []clientv3.Op
	for _, p := range parts {
		defer context.AfterFunc(p.ctx, func() {
			if callers.Add(-1) == 0 {
				cancel()
			}
		})()
		ops = append(ops, clientv3.OpTxn(p.when, p.then, p.otherwise))
		for _, op := range p.then {
			switch {
			case op.IsPut():
				named = append(named, clientv3.OpPut(string(op.KeyBytes()), ""))
			case !op.IsTxn():
				named = append(named, op)
			}
		}
	}
	got, err := s.change(ctx, nil, ops, named)
	if err != nil {
		return err
	}
	for i, p := range parts {
		p.got = (*clientv3.TxnResponse)(got.Responses[i].GetResponseTxn())
		p.got.Header = got.Header
	}
	return nil
}

// notMade: a server has refused a transaction, because of one of its parts.
func notMade(err error) bool {
	code := status.Code(err)
	if said := (rpctypes.EtcdError{}); errors.As(err, &said) {
		code = said.Code()
	}
	switch code {
	case codes.NotFound, codes.ResourceExhausted, codes.InvalidArgument, codes.PermissionDenied:
		return true
	}
	return false
}
