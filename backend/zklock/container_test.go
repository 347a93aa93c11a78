package zklock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/zklock/internal/zk"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/backoff"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/zktest"
)

// Promise: a connection is closed in the middle of making containers. Nobody reads their answers while these are written, which the race
// detector tells, and the session ends at once.
func TestAConnectionIsClosedWhileContainersAreMade(t *testing.T) {
	t.Parallel()
	u := errtest.Must(driver.ParseURL("zookeeper://" + zktest.Start(t).Addr))(t)
	made := errtest.Must(open(t.Context(), u))(t)
	d := made.(*Driver)
	defer d.Close()
	var sessions []string
	for n := range 30 {
		l := errtest.Must(d.dialled(t.Context(), 30*time.Second))(t)
		sessions = append(sessions, d.aside(fmt.Sprintf("session-%d", n)))
		errtest.None(t, d.lay(t.Context(), l, d.aside(), false))
		errtest.Must(l.Conn.Create(sessions[n], nil, zk.Ephemeral, d.acl))(t)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { _ = d.lay(ctx, l, d.aside(fmt.Sprintf("%d-%d", n, i)), true) })
		}
		time.Sleep(rand.N(3 * time.Millisecond))
		cancel()
		all.Wait()
		l.Close()
	}
	l, err := d.dialled(t.Context(), 30*time.Second)
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
