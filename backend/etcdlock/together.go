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

	"github.com/interlock-go/interlock/driver/exchange"
)

// shared is one transaction, by which the changes of a list begin: each transaction costs a cluster a proposal, with
// one part as with many. A part has its own conditions and its own outcome.
//
//   - A server compares the conditions of all parts before it changes anything, and all that they create gets one
//     revision. So a transaction has one part of a queue at most, and none of another queue whose tickets are read with
//     those of the first: who reads page by page, from revision to revision, would miss some.
//   - A server does not check rights, nor whether the database is full, for what is inside a part. So the operations are
//     named once more where they never run: as what to do if a condition fails, of a transaction that has none.
type shared struct {
	mu    sync.Mutex
	left  int // parts that are still to come
	parts []*part
	done  chan struct{} // closed when err, and got of the parts, are there
	err   error
}

const (
	perShared = maxOps / 5           // how many parts a transaction has: each has up to five operations
	maxWait   = 5 * time.Millisecond // a part of what a cluster takes whose members are far from each other
)

// part is what a change begins with.
type part struct {
	when            []clientv3.Cmp
	then, otherwise []clientv3.Op
	got             *clientv3.TxnResponse
}

// Change has those changes share a transaction that begin with one, and are of queues that are not near each other.
func (s *store) Change(ctx context.Context, changes []exchange.Change, answer func(int, exchange.Answer)) {
	if exchange.OneQueue(changes) {
		exchange.Each(ctx, s, changes, answer)
		return
	}
	of := &shared{done: make(chan struct{})}
	var share []int // of the changes
	for i, c := range changes {
		if beginsWithPart(c) && !slices.ContainsFunc(share, func(o int) bool { return near(changes[o].In(), c.In()) }) {
			share = append(share, i)
		} else {
			answer(i, exchange.Answer{Err: exchange.ErrAlone})
		}
	}
	of.left = len(share)
	exchange.AtOnce(len(share), func(k int) {
		var a exchange.Answer
		switch c := changes[share[k]].(type) {
		case *exchange.Join:
			a.Status, a.Err = s.join(ctx, *c, of)
		case *exchange.Leave:
			a.Unsettled, a.Err = s.leave(ctx, *c, of)
		}
		answer(share[k], a)
	})
}

// beginsWithPart: nothing is to be asked first.
func beginsWithPart(c exchange.Change) bool {
	switch c := c.(type) {
	case *exchange.Join:
		return !c.NoWait && !c.Retry
	case *exchange.Leave:
		return c.Tag != 0 && c.Tombstone == 0
	}
	return false
}

// near: who reads one of two queues reads tickets of the other: it is the same, or below, such as foo/bar below foo.
func near(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a) && (len(a) == len(b) || b[len(a)] == '/')
}

// changeIn is change as a part of a transaction; nil: it is one of its own.
func (s *store) changeIn(ctx context.Context, of *shared, when []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	if of == nil {
		return s.change(ctx, when, then, otherwise)
	}
	p := &part{when: when, then: then, otherwise: otherwise}
	of.mu.Lock()
	of.parts = append(of.parts, p)
	of.left--
	last := of.left == 0
	of.mu.Unlock()
	if last {
		of.err = s.makeTogether(ctx, of.parts)
		close(of.done)
	}
	<-of.done
	if notMade(of.err) {
		return nil, exchange.ErrAlone
	}
	return p.got, of.err
}

// makeTogether makes a transaction of parts.
func (s *store) makeTogether(ctx context.Context, parts []*part) error {
	var ops, named []clientv3.Op
	for _, p := range parts {
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
	if tooLong(err) {
		return false
	}
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
