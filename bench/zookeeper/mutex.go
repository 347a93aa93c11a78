package zookeeper

import (
	"context"
	neturl "net/url"
	"os"

	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/zkpeer"
)

// jvm is a client of Curator with a JVM of its own, which dies with this process:
// it is for W9.
type jvm struct {
	peer *zkpeer.Peer
	dir  string
}

func openCurator(url string) func(context.Context, workload.Options) (workload.Client, error) {
	return func(_ context.Context, o workload.Options) (workload.Client, error) {
		u, err := neturl.Parse(url)
		if err != nil {
			return nil, err
		}
		dir, err := os.MkdirTemp("", "bench-curator-")
		if err != nil {
			return nil, err
		}
		peer, err := zkpeer.RunCurator(dir, u.Host, zkpeer.SessionTimeout(o.TTL))
		if err != nil {
			_ = os.RemoveAll(dir)
			return nil, err
		}
		return jvm{peer, dir}, nil
	}
}

func (j jvm) Close() error {
	err := j.peer.Close()
	_ = os.RemoveAll(j.dir)
	return err
}

func (j jvm) Lock(name string) workload.Lock {
	mutex := j.peer.Mutex("/" + name)
	return func(ctx context.Context) (workload.Held, error) {
		if err := mutex.Acquire(ctx); err != nil {
			return nil, err
		}
		return mutex, nil
	}
}
