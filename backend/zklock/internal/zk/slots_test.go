package zk

import (
	"context"
	"github.com/interlock-go/interlock/internal/errtest"
	"testing"
	"testing/synctest"
	"time"
)

// Promise: slots are for those who stand in line before those who come, in the order in which
// they ask; who gives up takes none; late answers leave fewer, and later ones more.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s slots
		ctx := t.Context()
		for range CrowdSlots {
			errtest.None(t, s.take(ctx, Coming))
		}
		var order []int
		ask := func(ctx context.Context, n int, r Rank) {
			go func() {
				if s.take(ctx, r) == nil {
					order = append(order, n)
				}
			}()
			synctest.Wait()
		}
		early, cancel := context.WithCancel(ctx)
		ask(early, 0, Coming)
		ask(ctx, 3, Coming)
		ask(ctx, 4, Coming)
		ask(ctx, 1, Watching)
		ask(ctx, 2, Watching)
		cancel()
		synctest.Wait()
		for range 4 {
			s.give(0, time.Second)
			synctest.Wait()
		}
		if len(order) != 4 || order[0] != 1 || order[1] != 2 || order[2] != 3 || order[3] != 4 {
			t.Errorf("slots were given to %v", order)
		}
		s.give(2*time.Second, time.Second)
		if s.limit != CrowdSlots/2 {
			t.Errorf("after a late answer there are %d slots", s.limit)
		}
		s.give(2*time.Second, time.Second)
		if s.limit != CrowdSlots/2 {
			t.Errorf("after the answer to a request of the same time there are %d slots", s.limit)
		}
		s.give(0, time.Second)
		if s.limit != CrowdSlots/2+1 {
			t.Errorf("after one in time there are %d slots", s.limit)
		}
	})
}
