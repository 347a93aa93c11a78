package recent_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/internal/recent"
)

// Promise: an ID is remembered for the span at least, and for three times as long at most,
// however often somebody looks.
func TestRemembersForItsSpan(t *testing.T) {
	const span = 10 * time.Second
	for _, every := range []time.Duration{time.Second, 7 * time.Second, span, 19 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := recent.IDs{Span: span}
			added := map[string]time.Time{}
			for n := range 100 {
				id := fmt.Sprintf("%032x", n)
				if r.Has(id) {
					t.Fatalf("%s was never added", id)
				}
				r.Add(id)
				added[id] = time.Now()
				time.Sleep(every)
				for id, at := range added {
					switch age, has := time.Since(at), r.Has(id); {
					case age <= span && !has:
						t.Fatalf("looking every %v: forgotten after %v", every, age)
					case age >= 3*span && has:
						t.Fatalf("looking every %v: remembered after %v", every, age)
					}
				}
			}
		})
	}
}
