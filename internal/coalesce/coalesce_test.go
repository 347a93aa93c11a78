package coalesce

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Promise: work that is asked for while it is under way is done once more, by whoever
// does it, however often it was asked for.
func TestAskedForMeanwhile(t *testing.T) {
	var w Tasks
	if !w.Begin("a") {
		t.Fatal("nobody does it")
	}
	for range 3 {
		if w.Begin("a") {
			t.Error("two do it")
		}
	}
	if !w.Begin("b") {
		t.Error("work of another name is not done")
	}
	if !w.More("a") {
		t.Error("it is not done once more")
	}
	if w.More("a") || w.More("b") {
		t.Error("it is done for nobody")
	}
	if !w.Begin("a") {
		t.Error("it cannot be done again")
	}
	if w.Begin("a"); !w.More("a") {
		t.Error("it is not done once more the second time")
	}
	w.Begin("a")
	w.End("a")
	if !w.Begin("a") || w.More("a") {
		t.Error("what was ended is remembered")
	}
}

// Promise: after the last one has asked, the work is done by one at a time, and at
// least once from then on.
func TestNothingThatWasAskedForIsLeftUndone(t *testing.T) {
	var w Tasks
	var asked, done, doing atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				asked.Add(1)
				if !w.Begin("a") {
					continue
				}
				for {
					if doing.Add(1) != 1 {
						t.Error("two do it")
					}
					done.Store(asked.Load())
					doing.Add(-1)
					if !w.More("a") {
						break
					}
				}
			}
		})
	}
	all.Wait()
	if asked, done := asked.Load(), done.Load(); done != asked {
		t.Errorf("%d had asked when it was done last, and %d in all", done, asked)
	}
}
