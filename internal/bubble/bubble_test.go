package bubble

import (
	"testing"
	"time"
)

// A test that waits for what never comes, while a timer goes on for ever, is named.
func TestATestThatWaitsInVainIsNamed(t *testing.T) {
	var named string
	real := giveUp
	defer func() { giveUp = real }()
	Run(t, func(t *testing.T) {
		end := make(chan struct{})
		giveUp = func(name string) { named = name; close(end) }
		beats := 0
		for began := time.Now(); ; {
			select {
			case <-time.After(5 * time.Second):
				beats++
				continue
			case <-end:
			}
			if took := time.Since(began); took < Limit || took > Limit+5*time.Second || beats == 0 {
				t.Errorf("given up after %v", took)
			}
			return
		}
	})
	if named != t.Name() {
		t.Errorf("named %q", named)
	}
}

// A test that ends is left alone, however long the others take.
func TestATestThatEndsIsLeftAlone(t *testing.T) {
	real := giveUp
	defer func() { giveUp = real }()
	giveUp = func(name string) { t.Errorf("%s is given up", name) }
	Run(t, func(*testing.T) { time.Sleep(Limit - time.Second) })
	Run(t, func(*testing.T) { time.Sleep(2 * time.Second) })
}
