package testserver

import (
	"errors"
	"fmt"
	"time"
)

// FakeTime lets a server that does not run yet see a wall clock of its own, which runs beside the true one by an
// offset, and which StepClock steps while the server runs. Its steady clock stays true. It works on Linux, with a C
// compiler, for programs that call the C library: for those of Go there is SetWallClock.
func (s *Server) FakeTime(offset time.Duration) (err error) {
	if s.clock, err = newClock(s.Dir); err != nil {
		return fmt.Errorf("a wall clock for the server: %w", err)
	}
	s.clock.step(offset)
	return nil
}

// StepClock adds d to the wall clock of a server with FakeTime. A Restart keeps it.
func (s *Server) StepClock(d time.Duration) {
	if s.clock == nil {
		s.Helper()
		s.Check("step the clock", errors.New("the server was started without FakeTime"))
	}
	s.clock.step(d)
}
