package zklock_test

import (
	"testing"

	"github.com/interlock-go/interlock/internal/chaos"
)

// Promise: whatever comes in the place of a server's answers, the program goes on.
func TestNoAnswerEndsTheProgram(t *testing.T) {
	t.Parallel()
	s := lent(t)
	chaos.Garbled(t, s.Addr, 120, func(addr string) string { return "zk://" + addr + "/a" })
}
