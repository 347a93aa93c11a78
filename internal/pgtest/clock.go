package pgtest

import (
	"errors"
	"time"
)

// FakeTime lets the server see a wall clock of its own, which is true at first, and which
// StepClock steps while the server runs. Its steady clock stays true. It works on Linux, with a
// C compiler.
func FakeTime() Option { return func(s *settings) { s.fake = true } }

// StepClock adds d to the wall clock of a server with FakeTime. A Restart keeps it.
func (s *Server) StepClock(d time.Duration) {
	if s.clock == nil {
		s.Helper()
		s.Check("step the clock", errors.New("the server was started without FakeTime"))
	}
	s.clock.Step(d)
}
