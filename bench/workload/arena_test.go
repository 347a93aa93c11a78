package workload

import (
	"testing"
	"time"
)

func TestTwoInTheArenaAreSeen(t *testing.T) {
	var a arena
	now := time.Now()
	if _, _, err := a.enter(1, 0, now); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.enter(2, 0, now); err == nil {
		t.Error("the second was let in")
	}
	if err := a.leave(1, now); err == nil {
		t.Error("the first did not notice")
	}
}

func TestGapIsFromTheReleaseOfAnother(t *testing.T) {
	var a arena
	now := time.Now()
	for i, step := range []struct {
		worker int
		handed bool
	}{{1, false}, {1, false}, {2, true}, {1, true}} {
		gap, handed, err := a.enter(step.worker, 0, now.Add(time.Millisecond))
		if err != nil || handed != step.handed || handed && gap != time.Millisecond {
			t.Errorf("%d: %v, %v, %v", i, gap, handed, err)
		}
		if err := a.leave(step.worker, now); err != nil {
			t.Error(err)
		}
	}
}
