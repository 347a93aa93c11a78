package interlock

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
)

// Promise: a moment that no calendar has, as a member may write one, keeps nobody from writing a
// listing as JSON.
func TestAMomentThatNoCalendarHas(t *testing.T) {
	c, err := New(t.Context(), memlock.New())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	now := time.Now()
	for _, at := range []time.Time{now, time.UnixMicro(math.MaxInt64), time.UnixMilli(math.MaxInt64), time.UnixMicro(math.MinInt64), time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)} {
		q := c.queue(driver.Queue{Name: "q", Members: []driver.Member{{Held: true, Since: at, Left: math.MaxInt64}}})
		if _, err := json.Marshal(q); err != nil {
			t.Errorf("%v: %v", at, err)
		}
		if since := q.Holders[0].Since; since != now && !since.IsZero() {
			t.Errorf("%v is shown as %v", at, since)
		}
	}
}
