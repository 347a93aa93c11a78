package etcdlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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
//   - A change waits for its transaction no longer than patience: those under way may be stuck at a member that is dead.
type together struct {
	patience time.Duration

	mu       sync.Mutex
	underWay int     // transactions
	waiting  []*part // in the order in which they came
}

const (
	perClient = 4 // how many transactions are under way before changes wait for each other
	maxWait   = 50 * time.Millisecond
)

// part is a change that waits for others.
type part struct {
	ctx             context.Context
	queue           string
	when            []clientv3.Cmp
	then, otherwise []clientv3.Op

	done  chan struct{} // the rest is there
	got   *clientv3.TxnResponse
	err   error
	alone bool // it was not made, and is to be made alone
}

// changeIn is change, for a change that has to do with one queue and the tickets of that.
func (s *store) changeIn(ctx context.Context, queue string, when []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	p := &part{ctx: ctx, queue: queue, when: when, then: then, otherwise: otherwise, done: make(chan struct{})}
	begun, waits := s.together.add(p)
	if begun {
		defer s.next()
	}
	if waits {
		defer time.AfterFunc(s.together.patience, func() {
			if s.together.remove(p) {
				p.alone = true
				close(p.done)
			}
		}).Stop()
		select {
		case <-p.done:
		case <-ctx.Done():
			s.together.remove(p)
			return nil, ctx.Err()
		}
		if !p.alone {
			return p.got, p.err
		}
	}
	return s.change(ctx, when, then, otherwise)
}

// add counts a part that may be a transaction of its own, since few are under way, and else has it wait, unless it can
// share none with one that waits.
func (g *together) add(p *part) (begun, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.underWay < perClient {
		g.underWay++
		return true, false
	}
	if slices.ContainsFunc(g.waiting, func(o *part) bool { return near(o.queue, p.queue) }) {
		return false, false
	}
	g.waiting = append(g.waiting, p)
	return false, true
}

// near: who reads one of two queues reads tickets of the other: it is the same, or below, such as foo/bar below foo.
func near(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a) && (len(a) == len(b) || b[len(a)] == '/')
}

// remove takes back a part that waits; false: it is under way.
func (g *together) remove(p *part) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, p)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// take is called when a transaction has ended. It returns the parts of the next one.
func (g *together) take() (parts []*part) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, ops := 0, 0
	for ; n < len(g.waiting) && ops+len(g.waiting[n].then) <= maxOps; n++ {
		ops += len(g.waiting[n].then)
	}
	parts = slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	if len(parts) == 0 {
		g.underWay--
	}
	return parts
}

// next is called when a transaction has ended, and begins the next one.
func (s *store) next() {
	if parts := s.together.take(); len(parts) > 0 {
		go func() {
			defer s.next()
			s.makeTogether(parts)
		}()
	}
}

// makeTogether makes a transaction of parts. It ends when all their callers have given up.
func (s *store) makeTogether(parts []*part) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var mu sync.Mutex
	callers := len(parts)
	var ops, named []clientv3.Op
	for _, p := range parts {
		defer context.AfterFunc(p.ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if callers--; callers == 0 {
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
	for i, p := range parts {
		if p.err = err; err == nil {
			p.got = (*clientv3.TxnResponse)(got.Responses[i].GetResponseTxn())
			p.got.Header = got.Header
		}
		p.alone = notMade(err)
		close(p.done)
	}
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
