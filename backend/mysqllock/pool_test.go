package mysqllock

import (
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// Promise: clients that a program gives one pool share the room in front of it, until the last of
// them is closed; those with another pool have room of their own.
func TestClientsOfAPoolShareItsLimiter(t *testing.T) {
	pool := func() *sql.DB {
		k, err := mysql.NewConnector(mysql.NewConfig())
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(k)
		db.SetMaxOpenConns(6)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	one, other := pool(), pool()
	a, b, c := &store{db: one}, &store{db: one}, &store{db: other}
	limiter := a.limiter()
	if limiter == nil || b.limiter() != limiter || c.limiter() == limiter {
		t.Error("each client has a limiter of its own, or all have the same")
	}
	a.Close()
	if again := (&store{db: one}); again.limiter() != limiter {
		t.Error("a client that comes later has a limiter of its own")
	} else {
		again.Close()
	}
	b.Close()
	c.Close()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.all[one] != nil || shared.all[other] != nil {
		t.Error("a limiter is kept after the last client")
	}
}
