// Package peek is a client of ZooKeeper with which tests make and see what others do.
package peek

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// Connect connects as a user (name:password), or as everybody.
func Connect(t testing.TB, addr, user string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if user != "" {
		if err := c.AddAuth("digest", []byte(user)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
