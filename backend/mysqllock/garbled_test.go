package mysqllock_test

import (
	"strings"
	"testing"

	"github.com/interlock-go/interlock/internal/chaos"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: whatever comes in the place of a server's answers, the program goes on.
func TestNoAnswerEndsTheProgram(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	opened(t, s.URL())
	chaos.Garbled(t, s.Addr, 120, func(addr string) string { return strings.Replace(s.URL(), s.Addr, addr, 1) })
}
