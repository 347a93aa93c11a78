package etcdlock_test

import (
	"context"
	"crypto/rand"
	"flag"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/drivertest"
	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Rules wait most of the time: leases have whole seconds.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // unless the command line says otherwise
	drivertest.Main(m)
}

// TTL is the shortest that a server grants.
const TTL = 2 * time.Second

// cannot lists the rules that the backend cannot keep.
var cannot = map[string]string{}

// Promise: it is a backend as package driver says.
func TestConformance(t *testing.T) {
	s := etcdtest.Start(t)
	drivertest.Run(t, drivertest.Backend{TTL: TTL, Unsupported: cannot, Small: true, World: worlds(s.Addr)})
}

// Promise: three members are as one. Clients in this process know one of them, which is not always the leader.
func TestConformanceOfACluster(t *testing.T) {
	c := etcdtest.StartCluster(t, 3)
	drivertest.Run(t, drivertest.Backend{
		TTL: TTL, Small: true, World: worlds(c.Others(c.Leader())[0].Addr),
		Only: []string{
			"Exclusion", "Order", "NoBarging", "ReadersAndWriters", "LeaveBeforeItsJoin", "ExpiryOfAHeldTicket", "LostMessages",
			"TokensOfExclusiveGrants", "SwapComparesVersions", "WatchNeverMissesTheLast", "FollowNeverMissesTheLast", "CountingProcesses", "ConcurrentPermits",
		},
	})
}

// worlds makes worlds on one server, each in a namespace of its own. Clients in this process reach it
// through a proxy, so that rules can disturb it.
func worlds(addr string) func(testing.TB) drivertest.World {
	return func(t testing.TB) drivertest.World {
		proxy := etcdtest.NewProxy(t, addr)
		name := rand.Text()
		var loses atomic.Bool
		disturb := func(begin func(*testserver.Proxy)) func() func() {
			return func() func() { begin(proxy); return proxy.Resume }
		}
		return drivertest.World{
			Open: func(ctx context.Context) (driver.Driver, error) {
				client, err := clientv3.New(clientv3.Config{
					Endpoints: []string{proxy.Addr}, Logger: zap.NewNop(),
					DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(lossy(&loses))},
				})
				if err != nil {
					return nil, err
				}
				d, err := etcdlock.New(ctx, client, etcdlock.Namespace(name))
				return ownClient{d, client}, err
			},
			LoseMessages: func() func() {
				loses.Store(true)
				return func() { loses.Store(false) }
			},
			URL:         "etcd://" + addr + "/" + name,
			Hang:        disturb((*testserver.Proxy).Hang),
			Late:        disturb((*testserver.Proxy).Late),
			Unreachable: drivertest.NobodyAt("etcd://127.0.0.1:1"),
		}
	}
}

// ownClient is a driver that closes the client that its program has made.
type ownClient struct {
	driver.Driver
	client *clientv3.Client
}

func (d ownClient) Close() error {
	err := d.Driver.Close()
	_ = d.client.Close()
	return err
}

// lossy loses the events of watches.
func lossy(loses *atomic.Bool) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := streamer(ctx, desc, conn, method, opts...)
		return lossyStream{s, loses}, err
	}
}

type lossyStream struct {
	grpc.ClientStream
	loses *atomic.Bool
}

func (s lossyStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*pb.WatchResponse); ok && s.loses.Load() {
		r.Events = nil
	}
	return err
}
