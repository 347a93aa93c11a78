package etcdlock

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// alive is a stream of KeepAlives. The client logs in for each new stream if it has a password, and a login takes
// the server some 50 ms of a processor. So the heartbeats of such a client use one stream, until one of them fails.
type alive struct {
	pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// keepAlive extends a lease by its TTL, and returns the term of Raft in which a server says so.
func (s *store) keepAlive(ctx context.Context, id clientv3.LeaseID) (term uint64, err error) {
	got, err := do(ctx, s, func(ctx context.Context) (*pb.LeaseKeepAliveResponse, error) {
		if a := s.idle.Swap(nil); a != nil {
			if got, err := s.extend(ctx, a, id); err == nil || ctx.Err() != nil {
				return got, err
			}
			s.exchanges.Add(1) // its server may have gone: once more, by another stream
		}
		a, err := s.newAlive(ctx)
		if err != nil {
			return nil, err
		}
		return s.extend(ctx, a, id)
	})
	if err == nil && got.TTL <= 0 {
		err = rpctypes.ErrLeaseNotFound
	}
	return got.GetHeader().GetRaftTerm(), err
}

// newAlive opens a stream, which ends with the store.
func (s *store) newAlive(ctx context.Context) (*alive, error) {
	of, cancel := context.WithCancel(s.ctx)
	defer context.AfterFunc(ctx, cancel)()
	stream, err := s.lease.LeaseKeepAlive(of)
	if err != nil {
		cancel()
		return nil, err
	}
	return &alive{stream, cancel}, nil
}

// extend asks by a stream that nobody else uses. It is kept for the next heartbeat if it was answered.
func (s *store) extend(ctx context.Context, a *alive, id clientv3.LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	defer context.AfterFunc(ctx, a.cancel)()
	err := a.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)})
	if err != nil && !errors.Is(err, io.EOF) { // else Recv says what has ended the stream
		a.cancel()
		return nil, err
	}
	got, err := a.Recv()
	if err == nil && s.logsIn() {
		a = s.idle.Swap(a)
	}
	a.end()
	return got, err
}

// logsIn: the client has a password.
func (s *store) logsIn() bool { return s.client.Username != "" }

// endIdle has the next heartbeat use another stream, which may lead to another server.
func (s *store) endIdle() { s.idle.Swap(nil).end() }

func (a *alive) end() {
	if a != nil {
		a.cancel()
	}
}
