package redislock_test

import (
	"testing"

	"github.com/interlock-go/interlock/drivertest"
)

func TestMain(m *testing.M) { drivertest.Main(m) }
