package etcdlock

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Stands is the comparison that a lock is still held, for transactions of the caller's own on the same
// cluster: each is refused as soon as the lock is not held any more, at the moment at which it would take
// effect. No token protects as well. It is asked for once for each lease, by one request through a client of
// the caller; if the lock is not held any more, that is [driver.ErrGone].
//
// Name is that of the lock, with the prefix of its client, if that has one, and id that of the lease
// ([interlock.Lease].ID). The options are those of New. Goroutines of one client that hand the lock to each
// other share a ticket: the comparison does not tell them apart, unless the lock has the option StrictOrder.
//
// [interlock.Lease]: https://pkg.go.dev/github.com/interlock-go/interlock#Lease
func Stands(ctx context.Context, client *clientv3.Client, name, id string, opts ...Option) (clientv3.Cmp, error) {
	l := configOf(opts).layout()
	id, _, _ = strings.Cut(id, ".")
	got, err := client.Get(ctx, l.queue(name), clientv3.WithPrefix())
	if err != nil {
		return clientv3.Cmp{}, fmt.Errorf("etcd: %w", err)
	}
	for _, kv := range got.Kvs {
		if t := l.readOne(exchange.Ref{Queue: name, ID: id}, kvs{kv}); t != nil {
			return clientv3.Compare(clientv3.CreateRevision(t.key), "=", t.Order), nil
		}
	}
	return clientv3.Cmp{}, driver.ErrGone
}
