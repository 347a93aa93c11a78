package flashsale

import "context"

// none protects nothing.
func none(s *shop) (sell, error) {
	return func(ctx context.Context, o order) (bool, error) { return s.buy(ctx, o) }, nil
}
