package etcd

import (
	"context"
	"math"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/interlock-go/interlock/bench/kernel"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// server is one member, which was started here.
type server struct {
	*etcdtest.Server
	traffic *kernel.Traffic
}

// start runs a member that waits for the disk, as it does by default.
func start() (*server, error) {
	dir, err := os.MkdirTemp("", "bench-etcd-")
	if err != nil {
		return nil, err
	}
	running, err := etcdtest.Run(dir, etcdtest.Flag("--quota-backend-bytes=4294967296"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return &server{running, kernel.NewTraffic(running.Port, 0)}, nil
}

func (s *server) Close() error {
	s.Stop()
	return os.RemoveAll(s.Dir)
}

// URL is that of all contenders.
func (s *server) URL() string { return "etcd://" + s.Addr }

func (s *server) About() []string {
	version := "of an unknown version"
	if c, err := connect(s.URL()); err == nil {
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if st, err := c.Status(ctx, s.Addr); err == nil {
			version = st.Version
		}
	}
	about := []string{"etcd " + version + ", one member, data in " + s.Dir + ", writes wait for the disk"}
	if _, _, err := s.traffic.Read(); err != nil {
		about = append(about, "bytes are not counted: "+err.Error())
	}
	return about
}

// Usage reads the kernel's counters.
func (s *server) Usage(context.Context) (u workload.Usage, err error) {
	u.CPU = kernel.CPU(s.Pid())
	u.Commands, u.Scripts, u.Transactions = math.NaN(), math.NaN(), math.NaN()
	if u.Sent, u.Received, err = s.traffic.Read(); err != nil {
		u.Sent, u.Received = math.NaN(), math.NaN()
	}
	return u, nil
}

// Clear revokes all leases, deletes all keys, and forgets what they were.
func (s *server) Clear(ctx context.Context) error {
	c, err := connect(s.URL())
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	leases, err := c.Leases(ctx)
	if err != nil {
		return err
	}
	for _, l := range leases.Leases {
		_, _ = c.Revoke(ctx, l.ID) // it may have ended
	}
	deleted, err := c.Delete(ctx, "", clientv3.WithPrefix())
	if err == nil && deleted.Deleted > 0 {
		_, err = c.Compact(ctx, deleted.Header.Revision)
	}
	return err
}

// connect makes a client of etcd with its defaults, but for its log.
func connect(url string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{url[len("etcd://"):]}, DialTimeout: 20 * time.Second, Logger: zap.NewNop()})
}

// Kept is the size of the database, of which no earlier revision is left.
func (s *server) Kept(ctx context.Context) (float64, error) {
	c, err := connect(s.URL())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	now, err := c.Get(ctx, "none")
	if err != nil {
		return 0, err
	}
	_, _ = c.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()) // it may be compacted already
	if _, err := c.Defragment(ctx, s.Addr); err != nil {
		return 0, err
	}
	status, err := c.Status(ctx, s.Addr)
	if err != nil {
		return 0, err
	}
	return float64(status.DbSize), nil
}
