package redistest

import (
	"os"
	"path/filepath"
	"testing"
)

// SocketPath is where a server can make a Unix socket (unixsocket): its path has to be short.
func SocketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "redis.sock")
}
