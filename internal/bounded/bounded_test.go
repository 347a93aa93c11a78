package bounded_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/internal/bounded"
)

// Promise: a bounded context ends as one of context.WithTimeout does, whether its channel was asked for or not.
func TestABoundedContextEndsAsAnyOther(t *testing.T) {
	why := errors.New("enough")
	for name, watched := range map[string]bool{"watched": true, "not watched": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := func(c context.Context, err, cause error) {
					t.Helper()
					if c.Err() != err || !errors.Is(context.Cause(c), cause) {
						t.Errorf("%v, since %v; want %v, since %v", c.Err(), context.Cause(c), err, cause)
					}
					select {
					case <-c.Done():
					default:
						if err != nil {
							t.Error("its channel is open")
						}
					}
				}
				begin := func(ctx context.Context) *bounded.Context {
					c := bounded.New(ctx, time.Second)
					if watched {
						c.Done()
					}
					return c
				}
				c := begin(t.Context())
				time.Sleep(time.Second - 1)
				synctest.Wait()
				if c.Err() != nil {
					t.Errorf("before its time: %v", c.Err())
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				ended(c, context.DeadlineExceeded, context.DeadlineExceeded)
				c.Release()

				parent, cancel := context.WithCancelCause(t.Context())
				c = begin(parent)
				cancel(why)
				synctest.Wait()
				ended(c, context.Canceled, why)
				c.Release()

				c = begin(t.Context())
				c.Release()
				select {
				case <-c.Done():
				default:
					t.Error("it has a timer after its release")
				}

				soon, stop := context.WithTimeout(t.Context(), time.Millisecond)
				defer stop()
				if at, ok := begin(soon).Deadline(); !ok || time.Until(at) != time.Millisecond {
					t.Errorf("its deadline is in %v, and that of its parent sooner", time.Until(at))
				}
			})
		})
	}
}
