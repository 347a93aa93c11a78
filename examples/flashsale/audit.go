package flashsale

import "context"

// audit counts in the database what was sold, and compares it with the orders
// that were confirmed to their buyers.
func (s *store) audit(ctx context.Context, r *Result, confirmed map[int]bool) error {
	if err := s.db.QueryRowContext(ctx, s.sql("SELECT sum(stock) FROM items")).Scan(&r.Left); err != nil {
		return err
	}
	rows, err := s.db.QueryContext(ctx, s.sql("SELECT buyer, worker FROM orders ORDER BY number"))
	if err != nil {
		return err
	}
	defer rows.Close()
	ordered := map[int]int{}
	for last := 0; rows.Next(); r.Orders++ {
		var buyer, worker int
		if err := rows.Scan(&buyer, &worker); err != nil {
			return err
		}
		ordered[buyer]++
		switch {
		case r.Orders == 0:
		case worker == last:
			r.Within++
		default:
			r.Between++
		}
		last = worker
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for buyer := range confirmed {
		if ordered[buyer] == 0 {
			r.Lost++
		}
		ordered[buyer]--
	}
	for _, more := range ordered {
		r.Duplicates += max(0, more)
	}
	r.Oversold = max(0, r.Orders-r.Stock)
	return nil
}
