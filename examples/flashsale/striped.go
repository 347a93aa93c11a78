package flashsale

import (
	"context"

	"github.com/interlock-go/interlock"
)

// segmentCounts are into how many segments the stock of an item is cut, one sale each.
var segmentCounts = []int{1, 4, 16}

// striped cuts the stock of an item into segments, each with a lock of its own. A buyer
// begins with one of them and goes on to the next while nothing is left. A stock never
// grows, so whoever has found every segment empty, one after the other, knows that all
// is sold.
func striped(s *shop) (sell, error) {
	locks, err := s.locks()
	if err != nil {
		return nil, err
	}
	stripes := locks.Striped(s.lock, s.items*s.segments, interlock.StrictOrder())
	return func(ctx context.Context, o order) (sold bool, err error) {
		item := o.item
		for i := range s.segments {
			o.item = s.segment(item, o.buyer/s.items+i)
			err = stripes.Stripe(o.item).Do(ctx, func(ctx context.Context) (err error) {
				sold, err = s.buy(ctx, o)
				return err
			})
			if sold || err != nil {
				break
			}
		}
		return sold, err
	}, nil
}

// segment is the row of an item's nth segment, counted round and round.
func (s *shop) segment(item, n int) int { return item*s.segments + n%s.segments }
