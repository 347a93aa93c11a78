package zk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a connection is closed in the middle of making containers. Nobody reads their answers while these are
// written, which the race detector tells, and the session ends at once.
func TestAConnectionIsClosedWhileContainersAreMade(t *testing.T) {
	t.Parallel()
	servers := &Servers{Hosts: []string{zktest.Start(t).Addr}, Patience: 5 * time.Second}
	acl := WorldACL(PermAll)
	var sessions []string
	for n := range 30 {
		l := errtest.Must(servers.Connect(t.Context(), 30*time.Second))(t)
		sessions = append(sessions, fmt.Sprintf("/session-%d", n))
		errtest.None(t, l.Make(t.Context(), sessions[n], nil, Ephemeral, acl))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { _ = l.Container(ctx, fmt.Sprintf("/%d-%d", n, i), acl) })
		}
		time.Sleep(rand.N(3 * time.Millisecond))
		cancel()
		all.Wait()
		l.Close()
	}
	l, err := servers.Connect(t.Context(), 30*time.Second)
	errtest.None(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // half of what they would live for by themselves
	defer cancel()
	for _, path := range sessions {
		for stat, err := l.Exists(ctx, path); stat != nil || err != nil; stat, err = l.Exists(ctx, path) {
			if backoff.Sleep(ctx, 10*time.Millisecond) != nil {
				t.Fatalf("%s goes on: %v", path, err)
			}
		}
	}
}
