package etcdlock

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/interlock-go/interlock/internal/etcdtest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// Servers are lent without keys and leases, and with revisions of any number. Their history may be compacted.
var Servers = testserver.Lender[*etcdtest.Server]{
	Run: func(dir string) (*etcdtest.Server, error) { return etcdtest.Run(dir) },
	Clean: func(s *etcdtest.Server) error {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Logger: zap.NewNop()})
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		leases, err := c.Leases(ctx)
		if err != nil {
			return err
		}
		for _, l := range leases.Leases {
			_, _ = c.Revoke(ctx, l.ID) // it may end just now
		}
		_, err = c.Delete(ctx, "", clientv3.WithPrefix())
		return err
	},
}

func lent(t *testing.T) *etcdtest.Server { t.Helper(); return Servers.Lend(t) }
