package mysqltest_test

import (
	"io"
	"net"
	"testing"

	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// A test process that is killed takes its servers with it.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	testserver.NoOrphans(t, func(addr string) (ended func()) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn)
		}
	})
}

func TestMain(m *testing.M) {
	testserver.Main(m, func(dir string) (addr string, err error) {
		s, err := mysqltest.Run(dir)
		if err != nil {
			return "", err
		}
		return s.Addr, nil
	})
}
