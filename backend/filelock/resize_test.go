//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/driver/exchange"
)

// Promise: a number of permits that was set outlasts a power loss, which may take all that was not
// made durable, and is not tidied away; once it was taken back, it is.
func TestTheNumberOfPermitsStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	for _, capacity := range []int64{3, 0} {
		s, locks, closes := session(t, dir)
		if _, err := s.Resize(t.Context(), "q", capacity); err != nil {
			t.Fatal(err)
		}
		for range 3 { // which need not be durable
			ticket, err := locks.Join(t.Context(), driver.Request{ID: exchange.NewID(), Queue: "q", Kind: driver.Semaphore, Units: 1, Capacity: 3})
			if err != nil {
				t.Fatal(err)
			}
			if err := locks.Leave(t.Context(), ticket, true); err != nil {
				t.Fatal(err)
			}
		}
		closes()
		f, err := os.OpenFile(s.dir.file(queues, escape("q")), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt(make([]byte, slots/2*slotSize), 0)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}

		s, locks, closes = session(t, dir)
		if err := s.forget(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		q, err := s.Read(t.Context(), "q", exchange.Follower{})
		if want := capacity > 0; err != nil || q.Resized != want || want && q.Capacity != capacity {
			t.Errorf("%d permits were set: %+v, %v", capacity, q, err)
		}
		r := request("q")
		r.ID, r.Capacity = exchange.NewID(), 5
		if _, err := locks.Join(t.Context(), r); errors.Is(err, driver.ErrMismatch) != (capacity > 0) {
			t.Errorf("one of five permits, where %d were set: %v", capacity, err)
		}
		closes()
	}
}
