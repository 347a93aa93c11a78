package interlock

import (
	"encoding/json"
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/engine"
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
		q := c.inspect(driver.Queue{Name: "q", Members: []driver.Member{{Held: true, Since: at, Left: math.MaxInt64}}})
		if _, err := json.Marshal(q); err != nil {
			t.Errorf("%v: %v", at, err)
		}
		if since := q.Holders[0].Since; since != now && !since.IsZero() {
			t.Errorf("%v is shown as %v", at, since)
		}
	}
}

// Promise: in JSON no time stands that is not known, no token of a waiter, and tokens are strings.
func TestALockAsJSON(t *testing.T) {
	c, err := New(t.Context(), memlock.New())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for want, m := range map[string]driver.Member{
		`"id":"h","owner":"o","note":"n","units":1,"token":"1152921504606846976","until":U,"fixed":false`: {ID: "h", Owner: "o", Note: []byte("n"), Units: 1, Token: 1 << (60 - engine.TokenBits), Held: true},
		`"id":"f","owner":"","note":"","units":0,"fixed":false,"foreign":true`:                            {ID: "f", Foreign: true},
		`"id":"g","owner":"","note":"","units":0,"until":U,"fixed":true,"foreign":true`:                   {ID: "g", Foreign: true, Fixed: true},
		`"id":"w","owner":"","note":"","units":0,"until":U,"fixed":false,"at":"a"`:                        {ID: "w", At: "a"},
	} {
		b, _ := json.Marshal(c.inspect(driver.Queue{Name: "q", Kind: "mutex", Members: []driver.Member{m}}))
		got := regexp.MustCompile(`"until":"[^"]*"`).ReplaceAllString(string(b), `"until":U`)
		if want := map[bool]string{true: `[{` + want + `}],"waiters":[]}`, false: `[],"waiters":[{` + want + `}]}`}[m.Held]; got != `{"name":"q","kind":"mutex","holders":`+want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
