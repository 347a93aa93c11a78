package main

import (
	"sync"
	"testing"

	"github.com/interlock-go/interlock"
)

func TestNoNumberIsGivenTwiceAndNoneIsLeftOut(t *testing.T) {
	t.Chdir(t.TempDir())
	const clients, each, block = 4, 10, 3
	var mu sync.Mutex
	given := map[int64]bool{}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			locks, err := interlock.Open(t.Context(), "sqlite:locks.db")
			if err != nil {
				t.Error(err)
				return
			}
			defer locks.Close()
			for range each {
				first, err := next(t.Context(), locks, block)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for n := first; n < first+block; n++ {
					if given[n] {
						t.Errorf("%d was given twice", n)
					}
					given[n] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for n := int64(1); n <= clients*each*block; n++ {
		if !given[n] {
			t.Errorf("%d was left out", n)
		}
	}
}

func TestWhatIsNoNumberIsRefused(t *testing.T) {
	for _, count := range []string{"", "0", "-1", "x"} {
		if err := run(t.Context(), "mem:", count); err == nil {
			t.Errorf("%q: want an error", count)
		}
	}
}
