package mysqllock_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: a crowd of clients goes on in order on a server that has room for a few connections: those of a process
// share theirs, and processes that the server has no room for come later, without besieging it. MYSQLLOCK_CLIENTS makes
// the crowd larger.
func TestACrowdOfClientsOnAServerWithFewConnections(t *testing.T) {
	t.Parallel()
	many := 300
	if n, err := strconv.Atoi(os.Getenv("MYSQLLOCK_CLIENTS")); err == nil {
		many = n
	}
	for _, c := range []struct{ clients, processes int }{{many, 1}, {120, 12}} {
		t.Run(fmt.Sprintf("%d clients in %d processes", c.clients, c.processes), func(t *testing.T) {
			s := mysqltest.Start(t, mysqltest.Config("max_connections", "60"))
			ctx, cancel := context.WithTimeout(t.Context(), busy.Bound(5*time.Minute))
			defer cancel()
			first, err := interlock.Open(ctx, s.URL()) // it makes the tables
			noError(t, err)
			defer first.Close()
			before, began := s.Status("Connection_errors_max_connections"), time.Now()
			var all sync.WaitGroup
			for i := range c.clients {
				all.Go(func() {
					var client *interlock.Client
					var err error
					for client == nil { // Open fails at once where there is no connection
						if client, err = interlock.Open(ctx, apart(s.URL(), i%c.processes)); err != nil {
							select {
							case <-time.After(time.Second):
							case <-ctx.Done():
								t.Errorf("Open: %v", err)
								return
							}
						}
					}
					defer client.Close()
					lease, err := client.Mutex("m").Acquire(ctx)
					if err == nil {
						err = lease.Release()
					}
					if err != nil {
						t.Errorf("client %d: %v", i, err)
					}
				})
			}
			all.Wait()
			refused := s.Status("Connection_errors_max_connections") - before
			t.Logf("%v, %d connections were refused", time.Since(began), refused)
			if refused > 50*c.clients {
				t.Errorf("the server has refused %d connections of %d clients", refused, c.clients)
			}
		})
	}
}
