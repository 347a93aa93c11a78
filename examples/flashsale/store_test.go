package flashsale

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/interlock-go/interlock/internal/errtest"
)

// Promise: an order whose reply was lost can be asked for again: the buyer has one then, and
// no other piece is taken.
func TestAnOrderThatIsAskedForAgainTakesNothing(t *testing.T) {
	s := errtest.Must(openStore(place{File: filepath.Join(t.TempDir(), "shop.db"), Sale: "sale"}))(t)
	defer s.db.Close()
	errtest.None(t, s.fill(t.Context(), []int{5}))
	ask := func(worker, buyer int) error {
		return s.transact(t.Context(), func(tx *sql.Tx) error {
			return s.placeOnce(t.Context(), tx, order{buyer: buyer, worker: worker}, func(tx *sql.Tx) error {
				left, err := s.stock(t.Context(), tx, 0)
				return errors.Join(err, s.setStock(t.Context(), tx, 0, left-1))
			})
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
	items, err := s.triples(t.Context(), "SELECT stock, 0, 0 FROM items")
	orders, counted := s.triples(t.Context(), "SELECT buyer, worker, 0 FROM orders")
	if err := errors.Join(err, counted); err != nil || len(items) != 1 || items[0][0] != 3 || len(orders) != 2 {
		t.Errorf("%v left and orders of %v, %v; want 3 and 2", items, orders, err)
	}
	for buyer, want := range map[int]bool{7: true, 8: true, 9: false} {
		if _, has, err := s.done.Lookup(t.Context(), s.db, s.key(buyer)); err != nil || has != want {
			t.Errorf("buyer %d has an order: %v, %v; want %v", buyer, has, err, want)
		}
	}
}
