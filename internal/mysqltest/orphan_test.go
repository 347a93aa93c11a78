package mysqltest_test

import (
	"testing"

	"github.com/interlock-go/interlock/internal/mysqltest"
	"github.com/interlock-go/interlock/internal/testserver"
)

// A test process that is killed takes its servers with it.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	testserver.NoOrphans(t, testserver.Silent(t))
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
