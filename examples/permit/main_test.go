package main

import (
	"errors"
	"testing"

	"github.com/interlock-go/interlock"
)

func TestAnotherProcessGivesThePermitBack(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "sqlite:locks.db"
	var ids []string
	for range permits {
		id, err := take(t.Context(), url) // with a client of its own, which is closed afterwards
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if _, err := take(t.Context(), url); !errors.Is(err, interlock.ErrBusy) {
		t.Errorf("one more: got %v, want ErrBusy", err)
	}
	if err := back(t.Context(), url, ids[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := take(t.Context(), url); err != nil {
		t.Errorf("the one that was given back: %v", err)
	}
	if err := back(t.Context(), url, ids[1]); !errors.Is(err, interlock.ErrLost) {
		t.Errorf("back again: got %v, want ErrLost", err)
	}
}
