package redistest

import (
	"errors"
	"time"
)

// FakeTime lets the server see a wall clock that runs beside the true one by
// an offset, and that StepClock steps while the server runs. Its steady clock
// stays true. It works on Linux, with a C compiler.
func FakeTime(offset time.Duration) Option {
	return func(s *settings) { s.fake, s.offset = true, offset }
}

// StepClock adds d to the wall clock of a server with FakeTime, from its next
// command on. A Restart keeps it.
func (s *Server) StepClock(d time.Duration) {
	if s.clock == nil {
		s.Helper()
		s.Check("step the clock", errors.New("the server was started without FakeTime"))
	}
	s.clock.Step(d)
}
