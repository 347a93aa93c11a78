package etcdlock_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"slices"
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
	"github.com/interlock-go/interlock/drivertest/primitives"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

var noError = errtest.None

// Rules wait most of the time: leases have whole seconds.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // unless the command line says otherwise
	drivertest.Main(etcdlock.Servers.Around(m))
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
			"NoRights":              "TestWhoHasNoRights has a server with users",
			"OtherUser":             "a server has the files",
			"NeighbourInTheProcess": "a server has the files",
			"StoppedInAChange":      "a change is one request, which a server makes as a whole",
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

// Promise: a user of the cluster without a right to the keys changes nothing.
func TestWhoHasNoRights(t *testing.T) {
	s := etcdtest.Start(t)
	for _, c := range []string{
		"user add root:secret", "user grant-role root root", "role add locks", "role grant-permission locks readwrite --prefix=true locks/",
		"user add app:secret", "user grant-role app locks", "user add nobody:secret", "auth enable",
	} {
		s.Ctl(strings.Fields(c)...)
	}
	as := func(user string) func(context.Context) (driver.Driver, error) {
		return func(ctx context.Context) (driver.Driver, error) {
			return drivertest.OpenURL(ctx, "etcd://"+user+":secret@"+s.Addr+"/locks")
		}
	}
	drivertest.Run(t, drivertest.Backend{TTL: TTL, Small: true, Only: []string{"NoRights"}, World: func(testing.TB) drivertest.World {
		return drivertest.World{Open: as("app"), NoRights: as("nobody"), URL: "etcd://app:secret@" + s.Addr + "/locks"}
	}})
}

// damages are garbage in all keys of a name.
func damages(t testing.TB, addr, namespace, name string) (all []drivertest.Damage) {
	client := errtest.Must(clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()}))(t)
	t.Cleanup(func() { _ = client.Close() })
	put := func(key, value string) error {
		lease, err := client.Grant(t.Context(), 60)
		if err == nil {
			_, err = client.Put(t.Context(), key, value, clientv3.WithLease(lease.ID))
		}
		return err
	}
	row := func(id, rest string) string {
		return "\x00" + `{"id":"` + id + `","kind":"mutex","session":"0123456789abcdef0123456789abcdef","mailbox":"../../x",` + rest + `}`
	}
	const id = "fedcba9876543210fedcba9876543210"
	for what, value := range map[string]string{
		"nothing": "", "a zero": "\x00", "text": "garbage", "no JSON": "\x00{", "nested JSON": "\x00" + strings.Repeat("[", 1<<14), "much": strings.Repeat("\x00", 1<<20),
		"a row of nothing": row(id, `"units":0,"capacity":0`), "a negative row": row(id, `"units":-1,"capacity":-1,"ttl":-1,"hold":-1,"fixed":-1`),
		"a huge row":             row(id, `"units":9007199254740991,"capacity":9007199254740991,"ttl":9223372036854775807,"fixed":9223372036854775807`),
		"a row with no ID":       row("", `"units":1,"capacity":1`),
		"a row of another kind":  row(id, `"kind":"?","units":1,"capacity":1`),
		"a number of permits":    `{"number":{"permits":-1,"set":-1,"held":-1,"perhaps":9223372036854775807}}`,
		"a floor above all":      `{"floor":[{"after":-9223372036854775808,"add":18446744073709551615}]}`,
		"a floor of many steps":  `{"floor":[` + strings.Repeat(`{"after":1,"add":1},`, 40000) + `{"after":1,"add":1}]}`,
		"a mark of another form": `{"id":1,"inherited":[]}`,
	} {
		others := []string{
			namespace + name + "/x", namespace + name + "/\xff\x00\x1b", namespace + "{floor}/" + name, namespace + "{mark}/" + name,
			namespace + "{leaver}/" + name, namespace + "{cell}/" + name,
		}
		all = append(all,
			drivertest.Damage{What: what + " in the tickets", Do: func() error {
				got, err := client.Get(t.Context(), namespace+name+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
				for i := 0; err == nil && i < len(got.Kvs); i++ {
					_, err = client.Put(t.Context(), string(got.Kvs[i].Key), value, clientv3.WithIgnoreLease())
				}
				return err
			}},
			drivertest.Damage{What: what + " in all other keys", Do: func() error {
				var failed error
				for _, key := range others {
					failed = cmp.Or(failed, put(key, value))
				}
				return failed
			}})
	}
	much := func(what string, one func(i int) (key, value string)) {
		all = append(all, drivertest.Damage{What: "~ more than an answer may have, in " + what, Do: func() error { // the last ones, since all others are read with them
			var failed error
			for i := range etcdlock.MaxAnswer>>20 + 1 {
				failed = cmp.Or(failed, put(one(i)))
			}
			return failed
		}})
	}
	mega := strings.Repeat("x", 1<<20)
	much("its values", func(i int) (key, value string) { return fmt.Sprint(namespace, name, "/0", i), mega })
	much("its keys", func(i int) (key, value string) { return fmt.Sprint(namespace, name, "/0", i, mega), "" })
	slices.SortFunc(all, func(a, b drivertest.Damage) int { return strings.Compare(a.What, b.What) }) // each call has the same order
	return all
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
		proxy := testserver.NewProxy(t, addr)
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
			Damages:     func(of string) []drivertest.Damage { return damages(t, addr, name+"/", of) },
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

// Promise: package interlock keeps its promises over it.
func TestPrimitives(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, addr string, part part) {
		t.Parallel()
		b := primitives.Backend{TTL: TTL, World: worlds(addr)}
		if part == some {
			b.Only = []string{"Exclusion", "Election", "KilledHolder", "KilledWaiter"}
		}
		primitives.Run(t, b)
	})
}
