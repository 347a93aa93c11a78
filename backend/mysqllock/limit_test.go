package mysqllock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: on a server that has as many connections as it allows, a client makes do with
// those that it has: what is held is renewed and released, others are granted. Who comes
// anew is told which setting is the limit.
func TestAServerWithoutFreeConnections(t *testing.T) {
	t.Parallel()
	for limit, names := range map[string]string{
		"ALTER USER app WITH MAX_USER_CONNECTIONS 1": "MAX_USER_CONNECTIONS",
		"SET GLOBAL max_user_connections = 1":        "max_user_connections",
		"SET GLOBAL max_connections = 10":            "max_connections",
	} {
		s := mysqltest.Start(t, mysqltest.Config("max_user_connections", "1000"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, one := session(t, s.URL())
		held, err := one.Join(ctx, mutex("held", 1))
		if err != nil {
			t.Fatal(err)
		}
		s.Do(limit)
		if names == "max_connections" { // the server has ten at least
			for range 9 {
				transaction(t, s, "SELECT 1")
			}
		}
		beat := make(chan error, 1)
		calls := make(chan error, 20)
		for n := range cap(calls) { // each wants a connection at the same time
			go func() {
				tk, err := one.Join(ctx, mutex(fmt.Sprint("q/", n), n+2))
				if err == nil {
					err = one.Leave(ctx, tk, true)
				}
				calls <- err
			}()
		}
		go func() {
			_, err := one.Renew(ctx, []driver.Ticket{held})
			if err == nil {
				err = one.Leave(ctx, held, true)
			}
			beat <- err
		}()
		if err := <-beat; err != nil {
			t.Errorf("%s: what is held: %v", limit, err)
		}
		for range cap(calls) {
			if err := <-calls; err != nil {
				t.Errorf("%s: a call: %v", limit, err)
			}
		}
		if d, err := open(ctx, s.URL()); err == nil {
			d.Close()
			t.Errorf("%s: another client is let in", limit)
		} else if !strings.Contains(err.Error(), names) || driver.IsPermanent(err) {
			t.Errorf("%s: the limit is not named, or taken for one that stays: %v", limit, err)
		}
	}
}
