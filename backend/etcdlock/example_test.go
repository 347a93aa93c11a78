package etcdlock_test

import (
	"context"
	"fmt"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// A write that only the holder of a lock may make, however late it arrives.
func ExampleStands() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	server, err := etcdtest.Run(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()

	ctx := context.Background()
	etcd, _ := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr}})
	defer etcd.Close()
	backend, err := etcdlock.New(ctx, etcd)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, _ := interlock.New(ctx, backend)
	defer client.Close()

	lease, _ := client.Mutex("jobs").Acquire(ctx)
	stands, err := etcdlock.Stands(ctx, etcd, "jobs", lease.ID())
	if err != nil {
		fmt.Println(err)
		return
	}
	write := func(value string) {
		r, err := etcd.Txn(ctx).If(stands).Then(clientv3.OpPut("result", value)).Commit()
		fmt.Println(value, err == nil && r.Succeeded)
	}
	write("41")
	_ = lease.Release()
	write("42")
	// Output:
	// 41 true
	// 42 false
}
