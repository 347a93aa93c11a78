package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/busy"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// permits are those of a queue: its capacity, whether that was set, and how many tickets are in it.
type permits struct {
	capacity int64
	set      bool
	tickets  int
}

func permitsOf(t *testing.T, d driver.Driver, queue string) permits {
	t.Helper()
	q := errtest.Must(d.Follow(t.Context(), queue, ""))(t)
	return permits{q.Capacity, q.Resized, len(q.Members)}
}

func isMismatch(t *testing.T, s *driver.Opened, r driver.Request) {
	t.Helper()
	if k, err := s.Join(t.Context(), r); !errors.Is(err, driver.ErrMismatch) {
		t.Errorf("a %s of %d where another number of permits was set: %+v, %v", r.Kind, r.Capacity, k, err)
	}
}

// Promise: a number of permits that was set outlasts a crash of the server, which empties the
// tables of locks; a permit of a fixed time counts by that number, also once it is not kept any more.
func TestTheNumberOfPermitsOutlastsACrash(t *testing.T) {
	t.Parallel()
	for _, way := range ways[1:3] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Start(t, pgtest.Durable())
			d := opened(t, s.URL())
			a := session(t, d)
			fixed := request("used", 5)
			fixed.Hold = time.Hour
			if k := join(t, a, fixed); !k.Held {
				t.Fatal("the first ticket waits")
			}
			join(t, a, request("undone", 2))
			fixed.ID, fixed.Queue = newID(), "undone"
			fixed.Capacity = 2
			join(t, a, fixed)
			for queue, capacity := range map[string]int64{"used": 3, "empty": 4, "undone": 7} {
				noError(t, d.Resize(t.Context(), queue, capacity))
			}
			noError(t, d.Resize(t.Context(), "undone", 0))

			way.do(s)
			var b *driver.Opened
			busy.Until(t, "a session begins", func() bool { // connections of the pool have died
				var err error
				if d, err = openURL(t.Context(), s.URL()); err != nil {
					return false
				}
				t.Cleanup(func() { d.Close() })
				b, err = d.Open(t.Context(), driver.SessionOptions{TTL: ttl})
				return err == nil
			})
			if got := permitsOf(t, d, "empty"); got != (permits{4, true, 0}) {
				t.Errorf("four permits were set, and nobody uses them: %+v", got)
			}
			if got := permitsOf(t, d, "used"); got != (permits{3, true, 1}) {
				t.Errorf("three permits were set, and one is held for an hour: %+v", got)
			}
			if got := permitsOf(t, d, "undone"); got.capacity != 7 || got.set {
				t.Errorf("seven permits were set, which was taken back while one was held: %+v", got)
			}
			for _, queue := range []string{"used", "empty"} {
				isMismatch(t, b, request(queue, 5))
				isMismatch(t, b, request(queue, 1))
			}
			isMismatch(t, b, request("undone", 2))
			three := request("used", 3)
			three.Units = 3
			k := join(t, b, three)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if k, err := b.Await(ctx, k); err == nil {
				t.Errorf("all three permits, of which one is held: %+v", k)
			}
		})
	}
}

// Promise: a Join whose reply was lost finds its ticket when it is repeated, whatever the number of
// permits is by then.
func TestAJoinIsRepeatedAfterANumberOfPermitsWasSet(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a := session(t, d)
	held := acquire(t, a, "s", 2)
	noError(t, d.Resize(t.Context(), "s", 3))
	const again = "SELECT (interlock.join('s', 'semaphore', 2, '%s', 1, '%s', '', NULL, 0, false, true, false))[1:2]"
	if got, want := s.SQL(fmt.Sprintf(again, held.ID, a.ID)), fmt.Sprintf("{1,%d}", held.Token); got != want {
		t.Errorf("the Join that is repeated answers %s, not %s", got, want)
	}
}
