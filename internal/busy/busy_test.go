package busy

import (
	"testing"
	"time"
)

// Promise: a bound grows with the load, is never shorter than on an idle machine, and has an end.
func TestABoundGrowsWithTheLoad(t *testing.T) {
	for text, want := range map[string]float64{
		"0.50 0.20 0.10 1/300 4711": 1,
		"7.00 0.20 0.10 1/300 4711": 3.5,
		"0.10 9.00 9.00 6/300 4711": 3,
		"99.0 0.20 0.10 1/300 4711": most,
		"":                          1,
		"nonsense":                  1,
	} {
		if got := factor(text, 2); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if d := Bound(time.Minute); d < time.Minute || d > most*time.Minute {
		t.Errorf("a minute is %v", d)
	}
}
