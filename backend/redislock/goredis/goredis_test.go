package goredis_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/interlock-go/interlock/backend/redislock/goredis"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/redistest"
)

// Promise: locks are on the servers that the client reaches, and reached as it reaches them.
func TestTheServersOfTheClient(t *testing.T) {
	socket := redistest.SocketPath(t)
	users := redistest.Users("default on >s3cret ~* &* +@all", "app on >hers ~* &* +@all", "nobody off")
	s := redistest.Start(t, users, redistest.Config("unixsocket", socket))
	secure := redistest.Start(t, redistest.TLS(), users)
	cluster := redistest.StartCluster(t, 3, users)
	secureCluster := redistest.StartCluster(t, 3, redistest.TLS(), users)
	elsewhere := func(to *redistest.Server) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			if network != "tcp" || addr != "elsewhere:1" {
				t.Errorf("it dials %s %s", network, addr)
			}
			return new(net.Dialer).DialContext(ctx, network, to.Addr)
		}
	}
	var dialed sync.Map
	noting := func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Store(addr, true)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	for name, client := range map[string]redis.UniversalClient{
		"password":                redis.NewClient(&redis.Options{Addr: s.Addr, Password: "s3cret"}),
		"user":                    redis.NewClient(&redis.Options{Addr: s.Addr, Username: "app", Password: "hers"}),
		"database":                redis.NewClient(&redis.Options{Addr: s.Addr, Password: "s3cret", DB: 3}),
		"socket":                  redis.NewClient(&redis.Options{Addr: socket, Password: "s3cret"}),
		"a socket that is said":   redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Password: "s3cret", DB: 3}),
		"dialer":                  redis.NewClient(&redis.Options{Addr: "elsewhere:1", Dialer: elsewhere(s), Password: "s3cret"}),
		"TLS":                     redis.NewClient(&redis.Options{Addr: secure.Addr, TLSConfig: config(t, secure), Password: "s3cret"}),
		"protocol 2":              redis.NewClient(&redis.Options{Addr: s.Addr, Password: "s3cret", Protocol: 2}),
		"universal":               redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{s.Addr}, Username: "app", Password: "hers", DB: 3}),
		"Cluster":                 redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: "app", Password: "hers"}),
		"one node of the Cluster": redis.NewUniversalClient(&redis.UniversalOptions{Addrs: cluster.Addrs()[:1], IsClusterMode: true, Password: "s3cret"}),
		"dialer of a Cluster":     redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: noting, Password: "s3cret"}),
		"Cluster with TLS":        redis.NewClusterClient(&redis.ClusterOptions{Addrs: secureCluster.Addrs(), TLSConfig: config(t, secureCluster.Nodes[0]), Password: "s3cret"}),
		"provider": redis.NewClient(&redis.Options{Addr: s.Addr, Username: "nobody", CredentialsProvider: func() (string, string) {
			return "app", "hers"
		}}),
		"provider with a context": redis.NewClient(&redis.Options{Addr: s.Addr, Username: "nobody", CredentialsProviderContext: func(context.Context) (string, string, error) {
			return "app", "hers", nil
		}}),
		"provider of a stream": redis.NewClient(&redis.Options{Addr: s.Addr, Username: "nobody", StreamingCredentialsProvider: always{"app", "hers"}}),
		"provider of a Cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), CredentialsProvider: func() (string, string) {
			return "app", "hers"
		}}),
	} {
		t.Run(name, func(t *testing.T) {
			defer client.Close()
			one, two := session(t, client), session(t, client)
			queue := "q/" + rand.Text()
			first, err := one.Join(t.Context(), mutex(queue))
			if err != nil || !first.Held {
				t.Fatalf("Join: %+v, %v", first, err)
			}
			if n, err := client.Exists(t.Context(), queue).Result(); n != 1 || err != nil {
				t.Errorf("the client does not see the key of the lock: %d, %v", n, err)
			}
			second, err := two.Join(t.Context(), mutex(queue))
			if err != nil || second.Held {
				t.Fatalf("Join while the lock is held: %+v, %v", second, err)
			}
			errtest.None(t, one.Leave(t.Context(), first, true))
			if second, err = two.Await(limited(t), second); err != nil || !second.Held {
				t.Fatalf("who waits does not get the lock: %v", err)
			}
			if _, err := two.Renew(limited(t), []driver.Ticket{second}); err != nil {
				t.Error(err)
			}
			errtest.Is(t, two.Leave(t.Context(), second, true), nil)
			if n, err := client.Exists(t.Context(), queue).Result(); n != 0 || err != nil {
				t.Errorf("the key stays after the release: %d, %v", n, err)
			}
		})
	}
	for _, addr := range cluster.Addrs() {
		if _, ok := dialed.Load(addr); !ok {
			t.Errorf("the dialer of the Cluster's client was not asked for %s", addr)
		}
	}
}

// Promise: a client whose servers cannot be reached as it reaches them is refused, and it is said
// what to use instead.
func TestClientsThatAreRefused(t *testing.T) {
	for words, client := range map[string]redis.UniversalClient{
		"redis://sentinel1,sentinel2?master=name": redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}),
		"redislock.Connect with a rueidis":        redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}),
		"ClusterSlots": redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return nil, errors.New("there are none")
		}}),
		"*redis.Client of one server": redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}),
		"made of the same options":    redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", OnConnect: func(context.Context, *redis.Conn) error { return nil }}),
		"the *redis.Client or":        wrapped{redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})},
	} {
		d, err := goredis.New(t.Context(), client)
		if err == nil {
			d.Close()
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(fmt.Sprint(err), words) {
			t.Errorf("%T: want %q, got %v", client, words, err)
		}
		client.Close()
	}
	if _, err := goredis.New(t.Context(), nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("no client: %v", err)
	}
}

type wrapped struct{ redis.UniversalClient }

// Promise: what is wrong with the credentials is said.
func TestWrongCredentials(t *testing.T) {
	s := redistest.Start(t, redistest.Users("default on >s3cret ~* &* +@all"))
	away := errors.New("the vault is away")
	for want, o := range map[string]*redis.Options{
		"WRONGPASS":         {Password: "s3cret2"},
		"NOAUTH":            {},
		"the vault is away": {CredentialsProviderContext: func(context.Context) (string, string, error) { return "", "", away }},
		"credentials: ":     {StreamingCredentialsProvider: never{away}},
	} {
		o.Addr = s.Addr
		client := redis.NewClient(o)
		defer client.Close()
		d, err := goredis.New(limited(t), client)
		if err == nil {
			d.Close()
		}
		if text := fmt.Sprint(err); err == nil || !strings.Contains(text, want) || !strings.Contains(text, s.Addr) || strings.Contains(text, "s3cret") {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

// Promise: each new connection has the credentials of then: who holds and who waits goes on when
// the password was changed, the server has ended all connections, and the provider hears of it later.
func TestChangedCredentials(t *testing.T) {
	s := redistest.Start(t, redistest.Users("default off", "app on >old ~* &* +@all"))
	var password atomic.Value
	password.Store("old")
	client := redis.NewClient(&redis.Options{Addr: s.Addr, CredentialsProvider: func() (string, string) { return "app", password.Load().(string) }})
	defer client.Close()
	one, two := session(t, client), session(t, client)
	held := errtest.Must(one.Join(t.Context(), mutex("q")))(t)
	waits := errtest.Must(two.Join(t.Context(), mutex("q")))(t)
	ctx := limited(t)
	granted := make(chan error, 1)
	go func() { _, err := two.Await(ctx, waits); granted <- err }()
	for _, command := range [][]string{{"ACL", "SETUSER", "app", "resetpass", ">new"}, {"CLIENT", "KILL", "USER", "app"}} {
		errtest.Must(s.Do(command...))(t)
	}
	var err error
	for !strings.Contains(fmt.Sprint(err), "WRONGPASS") {
		if _, err = one.Renew(ctx, []driver.Ticket{held}); ctx.Err() != nil {
			t.Fatalf("the old password still works: %v", err)
		}
	}
	if driver.IsPermanent(err) {
		t.Errorf("an error that passes is taken for one that stays: %v", err)
	}
	password.Store("new")
	for err = one.Leave(ctx, held, true); err != nil && ctx.Err() == nil; { // as the core does
		err = one.Leave(ctx, held, true)
	}
	errtest.Is(t, errtest.Received(t, "the grant", granted), nil, "who waits does not get the lock")
}

// Promise: locks do not wait for the commands of the program, and none of its connections is
// taken from it.
func TestCommandsOfTheProgramHoldUpNothing(t *testing.T) {
	s := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: 1, PoolTimeout: time.Hour, ReadTimeout: -1})
	defer client.Close()
	popped := make(chan error, 1)
	go func() { popped <- client.BLPop(t.Context(), 0, "list").Err() }() // takes the whole pool
	one, two := session(t, client), session(t, client)
	first := errtest.Must(one.Join(limited(t), mutex("q")))(t)
	second := errtest.Must(two.Join(limited(t), mutex("q")))(t)
	if _, err := one.Renew(limited(t), []driver.Ticket{first}); err != nil {
		t.Error(err)
	}
	errtest.Is(t, one.Leave(limited(t), first, true), nil)
	if _, err := two.Await(limited(t), second); err != nil {
		t.Error(err)
	}
	if stats := client.PoolStats(); stats.TotalConns > 1 {
		t.Errorf("the pool of the program has %d connections", stats.TotalConns)
	}
	select {
	case err := <-popped:
		t.Errorf("the program's command has ended: %v", err)
	default:
	}
	errtest.Must(s.Do("RPUSH", "list", "x"))(t)
	errtest.Is(t, errtest.Received(t, "the program's command", popped), nil)
}

// Promise: a driver has three connections, which have the name of the client's and end with the
// driver. The client stays open; and a driver outlives its client.
func TestConnections(t *testing.T) {
	s := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr, ClientName: "shop"})
	defer client.Close()
	use := func(of driver.Session) {
		t.Helper()
		tk := errtest.Must(of.Join(limited(t), mutex("q")))(t)
		errtest.Must(of.Renew(limited(t), []driver.Ticket{tk}))(t)
		errtest.None(t, of.Leave(limited(t), tk, true))
	}
	unnamed := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer unnamed.Close()
	use(session(t, unnamed)) // the server knows the scripts: a heartbeat is one pipeline
	d := errtest.Must(goredis.New(limited(t), client))(t)
	defer d.Close()
	of := errtest.Must(d.Open(limited(t), driver.SessionOptions{TTL: time.Minute}))(t)
	use(of)
	if n := named(t, s, "shop"); n != 3 {
		t.Errorf("%d connections", n)
	}
	errtest.None(t, d.Close())
	busy.Until(t, "connections end with Close", func() bool { return named(t, s, "shop") == 0 })
	errtest.Is(t, client.Ping(limited(t)).Err(), nil, "the client after Close of the driver")
	other := session(t, client)
	errtest.None(t, client.Close())
	if _, err := other.Join(limited(t), mutex("q")); err != nil {
		t.Errorf("a driver after Close of its client: %v", err)
	}
}

func named(t *testing.T, s *redistest.Server, name string) int {
	t.Helper()
	list := errtest.Must(s.Do("CLIENT", "LIST"))(t)
	return strings.Count(list.(string), " name="+name+" ")
}

// Promise: opening ends with its context, though a function of the program does not, and leaves no
// connection behind.
func TestFunctionsThatDoNotEnd(t *testing.T) {
	s := redistest.Start(t)
	hang := make(chan struct{})
	dialed := make(chan net.Conn, 1)
	for name, o := range map[string]*redis.Options{
		"dialer": {Dialer: func(context.Context, string, string) (net.Conn, error) {
			<-hang
			conn, err := net.Dial("tcp", s.Addr)
			dialed <- conn
			return conn, err
		}},
		"provider": {CredentialsProvider: func() (string, string) { <-hang; return "", "" }},
	} {
		o.Addr, o.DialTimeout = s.Addr, time.Hour
		client := redis.NewClient(o)
		defer client.Close()
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := goredis.New(ctx, client)
			ended <- err
		}()
		if err := errtest.Received(t, "the end of New, "+name, ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	close(hang)
	late := errtest.Received(t, "the late connection", dialed)
	_ = late.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection that came too late: %v", err)
	}
}

// session opens a driver with one session.
func session(t *testing.T, client redis.UniversalClient) driver.Session {
	t.Helper()
	d := errtest.Must(goredis.New(limited(t), client))(t)
	t.Cleanup(func() { d.Close() })
	s := errtest.Must(d.Open(limited(t), driver.SessionOptions{TTL: time.Minute}))(t)
	return s
}

// limited is the context of what must not take longer than a minute.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	t.Cleanup(cancel)
	return ctx
}

func mutex(queue string) driver.Request {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return driver.Request{ID: hex.EncodeToString(id[:]), Queue: queue, Kind: driver.Mutex, Units: 1, Capacity: 1}
}

// config trusts the server, and shows what it wants.
func config(t *testing.T, s *redistest.Server) *tls.Config {
	t.Helper()
	authority := errtest.Must(os.ReadFile(s.CA))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	mine := errtest.Must(tls.LoadX509KeyPair(s.ClientCert, s.ClientKey))(t)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{mine}}
}

// always is a provider whose credentials do not change.
type always struct{ user, password string }

func (a always) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return auth.NewBasicCredentials(a.user, a.password), func() error { return nil }, nil
}

// never is a provider that fails.
type never struct{ err error }

func (n never) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	return nil, nil, n.err
}
