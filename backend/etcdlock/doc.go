// Package etcdlock runs Interlock on etcd.
//
//	import _ "github.com/interlock-go/interlock/backend/etcdlock"
//
//	c, err := interlock.Open(ctx, "etcd://host1,host2,host3/locks")
package etcdlock
