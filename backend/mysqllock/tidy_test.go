package mysqllock_test

import (
	"errors"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/mysqltest"
)

// Promise: what was left and what was swapped is remembered for long enough, whatever is
// tidied up meanwhile.
func TestTidyingForgetsNothingThatIsNeeded(t *testing.T) {
	t.Parallel()
	s := mysqltest.Start(t)
	d, a := session(t, s.URL())
	late := mutex("q", 1)
	errtest.MustBe(t, a.Leave(t.Context(), driver.Ticket{ID: late.ID, Queue: late.Queue}, true), driver.ErrGone)
	swap := driver.Swap{ID: newID(2), Name: "x/value", Value: []byte("a")}
	swapped := errtest.Must(d.Swap(t.Context(), swap))(t)
	// The swap was a minute ago, and the queue was used hours ago.
	s.Do("UPDATE interlock_swaps SET at = at - 60000000; UPDATE interlock_queues SET since = since - 7200000000; CALL interlock_v3_tidy(0, 1000000)")
	if got, err := a.Join(t.Context(), late); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a Join that comes after its Leave has got %+v, %v", got, err)
	}
	if again, err := d.Swap(t.Context(), swap); err != nil || again.Version != swapped.Version {
		t.Errorf("a swap that is repeated returns %+v, %v, and returned %+v", again, err, swapped)
	}
}
