package interlock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Of a client so many come to a line at once as are enough; others one after the other, with
// rests that are the longer the slower the backend is, or together when few are left. Who
// gives up before that has not come, and keeps nobody from it.
func TestACrowdComesSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took, more = 10 * time.Millisecond, 20
		ctx := t.Context()
		var c crowds
		var mu sync.Mutex
		var came []int
		join := func(ctx context.Context, n int) {
			answered, err := c.come(ctx, t.Context(), "q")
			if err != nil {
				return
			}
			mu.Lock()
			came = append(came, n)
			mu.Unlock()
			time.Sleep(took)
			answered()
		}
		have := func() (n, last int) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(came), came[len(came)-1]
		}
		for n := range crowded {
			go join(ctx, n)
		}
		if n, _ := have(); n != crowded {
			t.Fatalf("%d come at once", n)
		}
		early, cancel := context.WithCancel(ctx)
		for n := range more {
			mine := ctx
			if n%2 == 1 {
				mine = early
			}
			go join(mine, crowded+n)
			synctest.Wait()
		}
		cancel()
		if n, _ := have(); n != crowded+1 {
			t.Errorf("%d more come at once", n-crowded)
		}
		for n := 2; n <= more/2; n++ {
			time.Sleep((1+rest)*took - time.Microsecond)
			before, _ := have()
			time.Sleep(time.Microsecond)
			if after, last := have(); before != crowded+n-1 || after != crowded+n || last != crowded+2*(n-1) {
				t.Errorf("after %d rests %d have come, at their end %d; the last is %d", n-1, before, after, last)
			}
		}
		for range 2 { // enough are left
			go join(ctx, -1)
		}
		time.Sleep(time.Hour)
		for range crowded + more/2 + 2 {
			c.gone("q")
		}
		if len(c.all) != 0 {
			t.Errorf("it remembers %+v", c.all["q"])
		}

		// When few are left, others come together, without a rest.
		mu.Lock()
		came = nil
		mu.Unlock()
		for n := range crowded + few + 5 {
			go join(ctx, n)
			synctest.Wait()
		}
		for range crowded - few {
			c.gone("q")
		}
		if n, _ := have(); n != crowded+1 {
			t.Errorf("%d have come though more than few are left", n)
		}
		c.gone("q")
		if n, _ := have(); n != crowded+1+crowded-few {
			t.Errorf("%d have come when few were left, want %d", n, crowded+1+crowded-few)
		}
		time.Sleep(time.Hour) // until all have their answers
	})
}
