//go:build linux || darwin

package guard

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
)

// stalling is a pipe whose writer is stopped, before some writes, until their deadline is over.
type stalling struct {
	stalls int
	room   int // that a write finds at most
	got    []byte
}

func (s *stalling) SetWriteDeadline(time.Time) error { return nil }

func (s *stalling) Write(b []byte) (int, error) {
	if s.stalls > 0 {
		s.stalls--
		return 0, os.ErrDeadlineExceeded
	}
	n := min(s.room, len(b))
	if s.got = append(s.got, b[:n]...); n < len(b) {
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

// Promise: a program that was stopped while it sends its guard an order has not lost it: a job would be
// killed under a lock that is held.
func TestAnOrderOutlastsAStopOfItsProgram(t *testing.T) {
	for _, pipe := range []*stalling{{stalls: 3, room: 100}, {room: 2}, {stalls: 2, room: 1}} {
		was := *pipe
		if err := writeBriefly(pipe, []byte("order")); err != nil || string(pipe.got) != "order" {
			t.Errorf("%+v: %q has arrived, and the error is %v", was, pipe.got, err)
		}
	}
}

// Promise: a guard that does not read does not hang its program.
func TestAGuardThatDoesNotReadHangsNobody(t *testing.T) {
	r, w, err := os.Pipe()
	errtest.None(t, err)
	defer r.Close()
	defer w.Close()
	if err := writeBriefly(w, make([]byte, 16<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a full pipe: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := writeBriefly(w, []byte("order")); err != nil {
		t.Errorf("a pipe that is read again: %v", err)
	}
}
