package deadline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/internal/deadline"
)

// slow is a context whose timer is never served.
type slow struct{ context.Context }

func (slow) Err() error { return nil }

func TestErr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := deadline.Err(ended); err != context.Canceled {
			t.Errorf("ended: %v", err)
		}
		if err := deadline.Err(t.Context()); err != nil {
			t.Errorf("without a deadline: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := deadline.Err(ctx); err != nil {
			t.Errorf("before the deadline: %v", err)
		}
		time.Sleep(time.Second)
		if err := deadline.Err(slow{ctx}); err != context.DeadlineExceeded {
			t.Errorf("at the deadline: %v", err)
		}
	})
}
