package etcd

import (
	"testing"

	"github.com/interlock-go/interlock/bench/trial"
)

func TestAllDoNothingWrong(t *testing.T) {
	b := Backend()
	trial.All(t, b, trial.Start(t, b))
}
