// Package etcd contributes what competes on etcd.
package etcd

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	_ "github.com/interlock-go/interlock/backend/etcdlock"
	"github.com/interlock-go/interlock/bench/ours"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// Backend starts one member, which waits for the disk as it does by default.
func Backend() workload.Backend {
	return workload.Backend{Name: "etcd", Start: start, Contenders: func(url string) []workload.Contender {
		return append([]workload.Contender{
			{Name: "concurrency", Settings: "the Mutex of etcd's own client, with a session for each that holds or waits", Open: openConcurrency(url)},
		}, ours.All(url)...)
	}}
}

func start(ctx context.Context) (workload.Server, error) {
	s, end, err := workload.Launch(func(dir string) (*etcdtest.Server, error) {
		return etcdtest.Run(dir, etcdtest.Flag("--quota-backend-bytes=4294967296"))
	}, (*etcdtest.Server).Stop)
	if err != nil {
		return workload.Server{}, err
	}
	version := "of an unknown version"
	if status, err := status(ctx, s.Addr); err == nil {
		version = status.Version
	}
	return workload.Server{URL: "etcd://" + s.Addr, About: "etcd " + version + ", one member, data in " + s.Dir + ", writes wait for the disk", Close: end,
		Kept: func(ctx context.Context) (float64, error) {
			status, err := status(ctx, s.Addr)
			if err != nil {
				return 0, err
			}
			return float64(status.DbSize), nil
		}}, nil
}

// status is that of a database without earlier revisions.
func status(ctx context.Context, addr string) (*clientv3.StatusResponse, error) {
	c, err := connect(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	now, err := c.Get(ctx, "none")
	if err != nil {
		return nil, err
	}
	_, _ = c.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()) // it may be compacted already
	if _, err := c.Defragment(ctx, addr); err != nil {
		return nil, err
	}
	return c.Status(ctx, addr)
}

// connect makes a client of etcd with its defaults, but for its log.
func connect(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: strings.Split(addr, ","), DialTimeout: 20 * time.Second, Logger: zap.NewNop()})
}
