package pglock_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/errtest"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// Promise: what was left and what was swapped is remembered for long enough, whatever is
// tidied up meanwhile.
func TestTidyingForgetsNothingThatIsNeeded(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	d := opened(t, s.URL())
	a := session(t, d)
	late := request("q", 1)
	errtest.MustBe(t, a.Leave(t.Context(), driver.Ticket{ID: late.ID, Queue: late.Queue}, true), driver.ErrGone)
	swap := driver.Swap{ID: strings.Repeat("1", 32), Name: "x/value", Value: []byte("a")}
	swapped := errtest.Must(d.Swap(t.Context(), swap))(t)
	// The swap was a minute ago, and the queue was used hours ago.
	s.SQL(`UPDATE interlock.swap SET at = at - 60000000;
		UPDATE interlock.queue SET last = last - 1000000000, granted = granted - 1000000000;
		SELECT interlock.tidy()`)
	if got, err := a.Join(t.Context(), late); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a Join that comes after its Leave has got %+v, %v", got, err)
	}
	if again, err := d.Swap(t.Context(), swap); err != nil || again.Version != swapped.Version {
		t.Errorf("a swap that is repeated returns %+v, %v, and returned %+v", again, err, swapped)
	}
}
