package interlock

import (
	"errors"
	"testing"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

// The first session of a client is checked as those that follow it.
func TestNoSessionIsGivenWrongArguments(t *testing.T) {
	c, err := New(t.Context(), memlock.NewWorld().Driver())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.s.Leave(t.Context(), driver.Ticket{ID: "none", Queue: "q"}, true); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Leave of a ticket that can have no such ID: %v", err)
	}
}
