package main

import (
	"context"
	"errors"
	"testing"
)

func TestTheJobRunsOnceAlthoughItIsStartedTwice(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "sqlite:locks.db"
	runs := 0
	job := func(context.Context) error { runs++; return nil }
	if ran, err := nightly(t.Context(), url, job); !ran || err != nil {
		t.Errorf("the first: got %v, %v; want it to run", ran, err)
	}
	if ran, err := nightly(t.Context(), url, job); ran || err != nil {
		t.Errorf("the second, when the first is done: got %v, %v; want it not to run", ran, err)
	}
	if runs != 1 {
		t.Errorf("the job ran %d times", runs)
	}
}

func TestTheErrorOfTheJobIsReported(t *testing.T) {
	want := errors.New("no paper")
	if ran, err := nightly(t.Context(), "mem:", func(context.Context) error { return want }); !ran || !errors.Is(err, want) {
		t.Errorf("got %v, %v; want it to run and fail", ran, err)
	}
}

func TestTheReportStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := report(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}
