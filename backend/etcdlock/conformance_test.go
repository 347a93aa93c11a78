package etcdlock_test

import (
	"context"
	"crypto/rand"
	"flag"
	"os"
	"strings"
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

// clusters are what the suites run on, and how much of these. ETCDLOCK_WHOLE has all of them run on each, which
// takes long. The installed version is the older one, of which more faults are known.
var clusters = []struct {
	name    string
	version etcdtest.Version
	members int
	part    part
}{
	{"installed", etcdtest.Installed, 1, whole},
	{"current", etcdtest.Current, 1, none},
	{"installed, three members", etcdtest.Installed, 3, none},
	{"current, three members", etcdtest.Current, 3, some},
}

// part is how much of a suite runs.
type part int

const (
	none part = iota
	some      // the rules that other members could bend
	whole
)

// onEach runs a suite on each cluster. Clients in this process know one member, which does not lead if there
// are others.
func onEach(t *testing.T, suite func(t *testing.T, addr string, part part)) {
	for _, c := range clusters {
		t.Run(c.name, func(t *testing.T) {
			if os.Getenv("ETCDLOCK_WHOLE") != "" {
				c.part = whole
			}
			if c.part == none {
				t.Skip("only with ETCDLOCK_WHOLE")
			}
			s := etcdtest.StartCluster(t, c.members, etcdtest.Of(c.version))
			member := s.Leader()
			if others := s.Others(member); len(others) > 0 {
				member = others[0]
			}
			suite(t, member.Addr, c.part)
		})
	}
}

// Promise: it is a backend as package driver says.
func TestConformance(t *testing.T) {
	onEach(t, func(t *testing.T, addr string, part part) {
		b := drivertest.Backend{TTL: TTL, Small: true, World: worlds(addr), Unsupported: map[string]string{
			"Stranger":              "nobody but the server sends to a client",
			"NoRights":              "being mended",
			"Member":                "being mended",
			"OtherUser":             "a server has the files",
			"NeighbourInTheProcess": "a server has the files",
			"Repeater":              "being mended",
			"Deaf":                  "being mended",
		}}
		if part == some {
			b.Only = []string{
				"Exclusion", "Order", "NoBarging", "ReadersAndWriters", "LeaveBeforeItsJoin", "ExpiryOfAHeldTicket", "LostMessages",
				"TokensOfExclusiveGrants", "SwapComparesVersions", "WatchNeverMissesTheLast", "FollowNeverMissesTheLast", "CountingProcesses", "ConcurrentPermits",
			}
		}
		drivertest.Run(t, b)
	})
}

// onBoth runs a test on each version of the server.
func onBoth(t *testing.T, name string, test func(t *testing.T, of etcdtest.Option)) {
	for _, v := range []etcdtest.Version{etcdtest.Installed, etcdtest.Current} {
		t.Run(strings.TrimPrefix(name+", "+string(v), ", "), func(t *testing.T) {
			t.Parallel()
			test(t, etcdtest.Of(v))
		})
	}
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
			Via: func(ctx context.Context, at func(string) string) (driver.Driver, error) {
				return drivertest.OpenURL(ctx, "etcd://"+at(addr)+"/"+name)
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
