package flashsale

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
)

// Promise: an order whose reply was lost can be asked for again: the buyer has one then, and
// no other piece is taken.
func TestAnOrderThatIsAskedForAgainTakesNothing(t *testing.T) {
	s, err := openStore(t.Context(), place{File: filepath.Join(t.TempDir(), "shop.db"), Sale: "sale"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.fill(t.Context(), []int{5}, false); err != nil {
		t.Fatal(err)
	}
	ask := func(worker, buyer int) error {
		return s.transact(t.Context(), func(tx *sql.Tx) error {
			return s.placeOnce(t.Context(), tx, order{buyer: buyer, worker: worker}, func() error { return s.takeOne(t.Context(), tx, 0) })
		})
	}
	for i, c := range []struct {
		worker, buyer int
		want          error
	}{{1, 7, nil}, {2, 7, errHasOne}, {1, 7, errHasOne}, {1, 8, nil}} {
		if err := ask(c.worker, c.buyer); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("request %d: got %v, want %v", i+1, err, c.want)
		}
	}
	left, err := s.left(t.Context(), 0, 1)
	orders, counted := s.orders(t.Context())
	if err := errors.Join(err, counted); err != nil || left != 3 || orders != 2 {
		t.Errorf("%d left and %d orders, %v; want 3 and 2", left, orders, err)
	}
	for buyer, want := range map[int]bool{7: true, 8: true, 9: false} {
		if has, err := s.hasOne(t.Context(), buyer); err != nil || has != want {
			t.Errorf("buyer %d has an order: %v, %v; want %v", buyer, has, err, want)
		}
	}
}
