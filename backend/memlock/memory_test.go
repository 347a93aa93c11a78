package memlock

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
)

func TestAWorldForgetsWhatNobodyNeeds(t *testing.T) {
	bubble.Run(t, func(t *testing.T) {
		ctx := context.Background()
		d := New()
		s, err := d.Open(ctx, driver.SessionOptions{TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		w := d.World()
		const n = 20000
		for i := range n {
			name := fmt.Sprint("q", i)
			r := driver.Request{ID: fmt.Sprintf("%032x", i), Queue: name, Kind: driver.Mutex, Units: 1, Capacity: 1}
			k, err := s.Join(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Follow(ctx, name, ""); err != nil {
				t.Fatal(err)
			}
			if err := s.Leave(ctx, k, true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		remembered := len(w.left.young) + len(w.left.old)
		if len(w.queues) > minQueues || len(w.tickets) > 0 || len(w.follows) > 0 || remembered > n/4 {
			t.Fatalf("%d queues, %d tickets, %d followed, %d remembered", len(w.queues), len(w.tickets), len(w.follows), remembered)
		}
		if w.timer != nil || len(w.sessions) > 0 {
			t.Fatalf("timer %v, %d sessions", w.timer, len(w.sessions))
		}
	})
}
