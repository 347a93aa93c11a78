package sqlitelock_test

import (
	"os"
	"testing"

	"github.com/interlock-go/interlock/drivertest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(asPuppet); path != "" {
		os.Exit(servePuppet(path))
	}
	drivertest.Main(m)
}
