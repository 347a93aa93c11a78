package etcdtest

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/testserver"
)

// SetClock lets the server, until it ends, see a wall clock that is ahead of the true one by whole seconds. Where that
// cannot be done, the test is skipped.
func (s *Server) SetClock(t testing.TB, ahead time.Duration) {
	t.Helper()
	err := testserver.SetWallClock(s.Pid(), ahead)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("the wall clock of a program of Go cannot be set here: %v", err)
	}
	s.Check("set the clock", err)
}

// WallClock is the wall clock of the server, to the second: it dates its answers.
func (s *Server) WallClock() time.Time {
	s.Helper()
	answer, err := http.Get("http://" + s.Addr + "/version")
	s.Check("ask for the version", err)
	answer.Body.Close()
	now, err := http.ParseTime(answer.Header.Get("Date"))
	s.Check("read the date", err)
	return now
}
