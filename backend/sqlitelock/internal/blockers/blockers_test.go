package blockers

import (
	"testing"
	"testing/synctest"
	"time"
)

// Promise: who keeps a file locked is looked up once in a while, however many want to know: the look
// stops all who lock a file on this machine. What was seen long ago is not told.
func TestBlockersAreLookedUpOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Of(t.Name())
		for second := range 3 {
			b.Names()
			first := b.at
			if time.Since(first) != 0 {
				t.Fatalf("second %d: nobody has looked for %v", second, time.Since(first))
			}
			time.Sleep(lookEvery - time.Nanosecond)
			for range 1000 {
				b.Names()
			}
			if !b.at.Equal(first) {
				t.Fatalf("second %d: they have looked again after %v", second, b.at.Sub(first))
			}
			time.Sleep(time.Nanosecond)
		}
	})
}
