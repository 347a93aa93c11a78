// Package goredis runs Interlock on the servers that a program reaches with
// github.com/redis/go-redis/v9.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	d, err := goredis.New(ctx, rdb)
//	…
//	locks, err := interlock.New(ctx, d)
//	…
//	defer locks.Close()
//
// Locks have connections of their own beside those of the client: go-redis lends none for
// good, a subscription needs one to itself, and a renewal must not wait for the program's own
// commands. What is taken over from the client is where the servers are, and how they are
// reached: see [New].
package goredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"

	"github.com/interlock-go/interlock/backend/redislock"
	"github.com/interlock-go/interlock/driver"
)

// New connects to the servers of a *redis.Client or *redis.ClusterClient in the way in which
// that does: its addresses, TCP or a Unix socket, Dialer, TLSConfig, DB, ClientName
// ("interlock" if it has none), Username and Password or one of the providers of them, and
// DialTimeout. A provider is asked for each new connection; an open one keeps what it has.
// Timeouts of commands, retries, pools, hooks and the protocol's version are not taken over.
//
// The client and the driver are independent after that, and may be closed in any order: Close of
// the driver closes the connections of the driver, and leaves the client open. ctx bounds the
// opening only.
//
// Some clients do not tell all that is needed. They are an error that wraps
// [driver.ErrInvalid]: one behind Sentinels (NewFailoverClient, NewFailoverClusterClient), for
// which there are the URL redis://sentinel1,sentinel2?master=name and [redislock.Connect]; a
// Ring; one with OnConnect or ClusterSlots; and wrappers of clients.
func New(ctx context.Context, client redis.UniversalClient, opts ...redislock.Option) (driver.Driver, error) {
	o, err := servers(client)
	if err != nil {
		return nil, driver.Invalid(fmt.Errorf("goredis: %w", err))
	}
	return redislock.Connect(ctx, o, opts...)
}

var (
	errSentinels = errors.New("the client's servers are named by Sentinels, or by a function (ClusterSlots), which cannot be read from it: " +
		"open the URL redis://sentinel1,sentinel2?master=name, or use redislock.Connect with a rueidis.SentinelOption")
	errRing = errors.New("the servers of a Ring know nothing of each other, and keys move when one is down: " +
		"use a *redis.Client of one server, the same for all programs")
	errOnConnect = errors.New("OnConnect of the client cannot be called for the connections of another library, and locks may need what it does: " +
		"if they do not, use a client that is made of the same options without it")
)

// servers are the options of a client for rueidis.
func servers(client redis.UniversalClient) (o rueidis.ClientOption, err error) {
	switch c := client.(type) {
	case *redis.Client:
		of := c.Options()
		if of.Addr == "FailoverClient" { // go-redis has no other sign of one
			return o, errSentinels
		}
		return options(of, of.Addr)
	case *redis.ClusterClient:
		of := c.Options()
		if of.ClusterSlots != nil {
			return o, errSentinels
		}
		return options(&redis.Options{
			Dialer: of.Dialer, DialTimeout: of.DialTimeout, TLSConfig: of.TLSConfig, OnConnect: of.OnConnect, ClientName: of.ClientName,
			Username: of.Username, Password: of.Password, CredentialsProvider: of.CredentialsProvider,
			CredentialsProviderContext: of.CredentialsProviderContext, StreamingCredentialsProvider: of.StreamingCredentialsProvider,
		}, of.Addrs...)
	case *redis.Ring:
		return o, errRing
	}
	return o, fmt.Errorf("the servers of a %T cannot be read from it: use the *redis.Client or *redis.ClusterClient behind it", client)
}

func options(of *redis.Options, addrs ...string) (rueidis.ClientOption, error) {
	if of.OnConnect != nil {
		return rueidis.ClientOption{}, errOnConnect
	}
	o := rueidis.ClientOption{
		InitAddress: addrs, SelectDB: of.DB, ClientName: of.ClientName, TLSConfig: of.TLSConfig, Dialer: net.Dialer{Timeout: max(0, of.DialTimeout)},
		Username: of.Username, Password: of.Password, AuthCredentialsFn: credentials(of),
	}
	if of.Dialer != nil { // it is what makes TLS, too
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			network := "tcp"
			if addr == of.Addr {
				network = of.Network
			}
			return of.Dialer(ctx, network, addr)
		}
	}
	return o, nil
}

// credentials is the provider that go-redis would ask; nil if there is none.
func credentials(of *redis.Options) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	var ask func(context.Context) (user, password string, err error)
	switch {
	case of.StreamingCredentialsProvider != nil:
		ask = func(context.Context) (user, password string, err error) {
			now, unsubscribe, err := of.StreamingCredentialsProvider.Subscribe(deaf{})
			if err != nil {
				return "", "", err
			}
			user, password = now.BasicAuth()
			_ = unsubscribe()
			return user, password, nil
		}
	case of.CredentialsProviderContext != nil:
		ask = of.CredentialsProviderContext
	case of.CredentialsProvider != nil:
		ask = func(context.Context) (user, password string, err error) {
			user, password = of.CredentialsProvider()
			return user, password, nil
		}
	default:
		return nil
	}
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(max(0, of.DialTimeout), 5*time.Second))
		defer cancel()
		user, password, err := ask(ctx)
		return rueidis.AuthCredentials{Username: user, Password: password}, err
	}
}

// deaf hears of no change: an open connection keeps what it has.
type deaf struct{}

func (deaf) OnNext(auth.Credentials) {}
func (deaf) OnError(error)           {}
