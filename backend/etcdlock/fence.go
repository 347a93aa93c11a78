package etcdlock

import (
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Stands is the comparison that a lock is still held, for a transaction of the caller's own on the same
// cluster: it is refused as soon as the lock is not held any more, at the moment at which it would take
// effect. No token protects as well.
//
// Name is that of the lock, with the prefix of its client, if that has one, and id that of the lease
// ([interlock.Lease].ID). The options are those of New. Goroutines of one client that hand the lock to each
// other share a ticket: the comparison does not tell them apart, unless the lock has the option StrictOrder.
//
// [interlock.Lease]: https://pkg.go.dev/github.com/interlock-go/interlock#Lease
func Stands(name, id string, opts ...Option) clientv3.Cmp {
	ticket, _, _ := strings.Cut(id, ".")
	return clientv3.Compare(clientv3.CreateRevision(configOf(opts).layout().ticket(name, ticket)), ">", 0)
}
