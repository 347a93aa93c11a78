package main

import (
	"errors"
	"testing"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

func TestAnotherProcessGivesThePermitBack(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "sqlite:locks.db"
	var id string
	for range permits {
		id = errtest.Must(take(t.Context(), url))(t) // with a client of its own, which is closed afterwards
	}
	if _, err := take(t.Context(), url); !errors.Is(err, interlock.ErrBusy) {
		t.Errorf("one more: got %v, want ErrBusy", err)
	}
	errtest.None(t, back(t.Context(), url, id))
	errtest.Must(take(t.Context(), url))(t)
	errtest.Is(t, back(t.Context(), url, id), interlock.ErrLost, "back again")
}
