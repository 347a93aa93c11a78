package etcdlock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// The library, and this package, take for granted that an answer has a header, and is of the kind that was
// asked for. Some goroutines are the library's: what they panic at ends the program. So each answer is looked
// at before.

var errUnsound = errors.New("the server answers something else than was asked")

// maxAnswer is the longest answer, in bytes, and maxFields how many elements it has.
const (
	maxAnswer = 64 << 20
	maxFields = 1 << 18
)

// decoded bounds what decoding an answer takes.
var decoded = []grpc.CallOption{grpc.MaxCallRecvMsgSize(maxAnswer), grpc.ForceCodecV2(codec{encoding.GetCodecV2("proto")})}

// shape is a message, by those of its fields that are messages. A field without a shape must not be there.
type shape map[uint64]shape

func shapeOf(m any) shape {
	switch m.(type) {
	case *pb.TxnResponse:
		return txnShape
	case *pb.WatchResponse:
		return shape{11: {2: {}, 3: {}}}
	case *pb.MemberListResponse:
		return shape{2: {}}
	}
	return nil
}

// txnShape has two transactions in each other at most, as those of this package have.
var txnShape = txnOf(txnOf(txnOf(nil)))

func txnOf(inner shape) shape { return shape{3: {1: {2: {}}, 3: {3: {}}, 4: inner}} }

// codec decodes what has a shape.
type codec struct{ encoding.CodecV2 }

func (c codec) Unmarshal(data mem.BufferSlice, m any) error {
	left := maxFields
	if !shapeOf(m).fits(data.Materialize(), &left) {
		return errUnsound
	}
	return c.CodecV2.Unmarshal(data, m)
}

// fits walks through a message.
func (s shape) fits(m []byte, left *int) bool {
	for len(m) > 0 {
		tag, n := binary.Uvarint(m)
		size := map[uint64]uint64{1: 8, 5: 4}[tag&7]
		if n > 0 && tag&7 <= 2 && tag&7 != 1 { // a number, or a length
			m = m[n:]
			if size, n = binary.Uvarint(m); tag&7 == 0 {
				size = 0
			}
		}
		if *left--; n <= 0 || *left < 0 || size > uint64(len(m)-n) || tag&7 > 2 && tag&7 != 5 {
			return false
		}
		field := m[n:][:size]
		if inner, ok := s[tag>>3]; ok && tag&7 == 2 && (inner == nil || !inner.fits(field, left)) {
			return false
		}
		m = m[n:][size:]
	}
	return true
}

// soundKV lets no other answers through.
type soundKV struct{ pb.KVClient }

func (c soundKV) Txn(ctx context.Context, asked *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	got, err := c.KVClient.Txn(ctx, asked, append(opts, decoded...)...)
	if err == nil && (got.Header == nil || !answers(asked, got)) {
		return nil, errUnsound
	}
	return got, err
}

// answers: there is an answer of its kind to each operation.
func answers(asked *pb.TxnRequest, got *pb.TxnResponse) bool {
	ops := asked.Success
	if got != nil && !got.Succeeded {
		ops = asked.Failure
	}
	if got == nil || len(got.Responses) != len(ops) || len(asked.Compare) == 0 && !got.Succeeded {
		return false
	}
	for i, op := range ops {
		r := got.Responses[i]
		switch keys, inner := op.GetRequestRange(), op.GetRequestTxn(); {
		case keys != nil:
			a := r.GetResponseRange()
			if a == nil || keys.Limit > 0 && int64(len(a.Kvs)) > keys.Limit || a.More && len(a.Kvs) == 0 {
				return false
			}
			if slices.ContainsFunc(a.Kvs, func(kv *mvccpb.KeyValue) bool { return !asks(keys, kv.Key) }) {
				return false
			}
		case inner != nil && !answers(inner, r.GetResponseTxn()):
			return false
		}
	}
	return true
}

// asks: the question is for this key, or for a range in which it is.
func asks(q *pb.RangeRequest, key []byte) bool {
	switch end := q.RangeEnd; {
	case len(end) == 0:
		return bytes.Equal(key, q.Key)
	case string(end) == "\x00":
		return bytes.Compare(key, q.Key) >= 0
	default:
		return bytes.Compare(key, q.Key) >= 0 && bytes.Compare(key, end) < 0
	}
}

// soundWatch is soundKV for watches.
type soundWatch struct{ pb.WatchClient }

func (c soundWatch) Watch(ctx context.Context, opts ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	s, err := c.WatchClient.Watch(ctx, append(opts, decoded...)...)
	if err != nil {
		return nil, err
	}
	return &soundStream{Watch_WatchClient: s, open: map[int64]bool{}}, nil
}

// soundStream ends with an error that is no reason for the library to try again at once.
type soundStream struct {
	pb.Watch_WatchClient
	asked atomic.Int64   // for so many watches
	begun int64          // so many
	open  map[int64]bool // those that have not ended
}

func (s *soundStream) Send(r *pb.WatchRequest) error {
	if r.GetCreateRequest() != nil {
		s.asked.Add(1)
	}
	return s.Watch_WatchClient.Send(r)
}

func (s *soundStream) Recv() (*pb.WatchResponse, error) {
	r, err := s.Watch_WatchClient.Recv()
	switch {
	case status.Code(err) == codes.Internal:
		err = errors.New(status.Convert(err).Message())
	case err != nil:
	case !s.tells(r):
		err = errUnsound
	case r.Created && r.Canceled: // here, since the library can wait for ever for what it has begun for that watch
		err = rpctypes.Error(errors.New(r.CancelReason))
	}
	return r, err
}

// tells: it is of a watch that there is.
func (s *soundStream) tells(r *pb.WatchResponse) bool {
	open := s.open[r.WatchId]
	switch {
	case r.Header == nil || r.Fragment || slices.ContainsFunc(r.Events, func(ev *mvccpb.Event) bool { return ev.Kv == nil }):
		return false
	case r.Created:
		s.begun++
		s.open[r.WatchId] = true
		return !open && s.begun <= s.asked.Load() && (r.WatchId != clientv3.InvalidWatchID || r.Canceled)
	case r.Canceled && r.CompactRevision == 0:
		delete(s.open, r.WatchId)
		return open
	}
	return true
}
