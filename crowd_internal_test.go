package interlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Of a client so many come to a line at once as are enough; others one after the other, with
// rests that are the longer the slower the backend is, or when one is granted or leaves. Who
// gives up before that has not come, and keeps nobody from it.
func TestACrowdComesSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took, more = 10 * time.Millisecond, 20
		ctx := t.Context()
		var c crowds
		var came []int
		join := func(ctx context.Context, n int) {
			answered, err := c.come(ctx, t.Context(), "q")
			if err != nil {
				return
			}
			came = append(came, n)
			time.Sleep(took)
			answered()
		}
		for n := range crowded {
			go join(ctx, n)
		}
		synctest.Wait()
		if len(came) != crowded {
			t.Fatalf("%d come at once", len(came))
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
		synctest.Wait()
		if n := len(came) - crowded; n != 1 {
			t.Errorf("%d more come at once", n)
		}
		for n := 2; n <= more/2; n++ {
			time.Sleep((1+rest)*took - time.Microsecond)
			before := len(came) - crowded
			time.Sleep(time.Microsecond)
			synctest.Wait()
			if after := len(came) - crowded; before != n-1 || after != n || came[len(came)-1] != crowded+2*(n-1) {
				t.Errorf("after %d rests %d have come, at their end %d; the last is %d", n-1, before, after, came[len(came)-1])
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

		// One that leaves, or is granted, makes room for another, without a rest.
		came = nil
		for n := range crowded + 5 {
			go join(ctx, n)
			synctest.Wait()
		}
		for n := range 4 {
			c.gone("q")
			c.gone("q")
			synctest.Wait()
			if want := min(crowded+1+n+1, crowded+5); len(came) < want {
				t.Errorf("%d have come, want %d", len(came), want)
			}
		}
		time.Sleep(time.Hour) // until all have their answers
	})
}
