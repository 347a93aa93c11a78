package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

func TestTasksOfOneCustomerAreDoneOneAtATimeInAllProcesses(t *testing.T) {
	t.Chdir(t.TempDir())
	var mu sync.Mutex
	busy, done := map[string]bool{}, 0
	work := func(_ context.Context, x task) error {
		mu.Lock()
		if busy[x.customer] {
			t.Errorf("two work for %s", x.customer)
		}
		busy[x.customer] = true
		mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		busy[x.customer] = false
		done++
		return nil
	}
	var processes sync.WaitGroup
	for range 2 {
		processes.Go(func() {
			tasks := make(chan task, 30)
			for i := range cap(tasks) {
				tasks <- task{fmt.Sprint("customer ", i%3), i}
			}
			close(tasks)
			errtest.Is(t, run(t.Context(), "sqlite:locks.db", 4, tasks, work), nil)
		})
	}
	processes.Wait()
	if done != 60 {
		t.Errorf("%d tasks were done, want 60", done)
	}
}

func TestTheErrorOfATaskEndsThePool(t *testing.T) {
	broken := errors.New("broken")
	tasks := make(chan task, 100)
	for i := range cap(tasks) {
		tasks <- task{"customer", i}
	}
	close(tasks)
	err := run(t.Context(), "mem:", 1, tasks, func(context.Context, task) error { return broken })
	if !errors.Is(err, broken) || len(tasks) != cap(tasks)-1 {
		t.Errorf("got %v, %d tasks are left", err, len(tasks))
	}
}
