package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/internal/errtest"
)

func TestAfterTheChangeOthersReadAndNobodyWrites(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "sqlite:locks.db"
	other := errtest.Must(interlock.Open(t.Context(), url))(t)
	defer other.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	used := false
	err := run(ctx, url, "config.txt", "port = 8080", func(text string) {
		used = true
		if text != "port = 8080" {
			t.Errorf("in use: %q", text)
		}
		reader, err := other.RWMutex("config").Reader().Acquire(ctx)
		if err != nil {
			t.Error("a reader beside it:", err)
			return
		}
		if _, err := other.RWMutex("config").Writer().TryAcquire(ctx); !errors.Is(err, interlock.ErrBusy) {
			t.Errorf("a writer beside it: got %v, want ErrBusy", err)
		}
		errtest.Is(t, reader.Release(), nil)
	})
	if err != nil || !used {
		t.Errorf("got %v, used %v", err, used)
	}
	errtest.None(t, errtest.Must(other.RWMutex("config").Writer().Acquire(ctx))(t).Release())
}
