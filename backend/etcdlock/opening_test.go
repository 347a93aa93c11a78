package etcdlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/etcdtest"
)

// Promise: a client that is opened just as the leader of the cluster has died waits for the next one.
func TestAClientIsOpenedWhileTheLeaderChanges(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartCluster(t, 3)
	leader := c.Leader()
	ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(time.Minute))
	defer cancel()
	url := ""
	for _, s := range c.Others(leader) {
		if url != "" {
			url += ","
		}
		url += s.Addr
	}
	leader.Kill()
	client := errtest.Must(interlock.Open(ctx, "etcd://"+url))(t)
	errtest.Is(t, client.Close(), nil)
}
