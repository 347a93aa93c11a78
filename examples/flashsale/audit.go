package flashsale

import (
	"context"
	"fmt"
)

// audit counts in the database what was sold, and compares it with what the buyers
// were told: told has those with an answer, and whether they have an order.
func (s *store) audit(ctx context.Context, r *Result, told map[int]bool) error {
	if err := s.db.QueryRowContext(ctx, s.sql("SELECT sum(stock) FROM items")).Scan(&r.Left); err != nil {
		return err
	}
	rows, err := s.db.QueryContext(ctx, s.sql("SELECT buyer, worker, item FROM orders ORDER BY number"))
	if err != nil {
		return err
	}
	defer rows.Close()
	r.PerWorker = make([]int, r.Workers)
	ordered, sold := map[int]int{}, make([]int, r.Items)
	for last := 0; rows.Next(); r.Orders++ {
		var buyer, worker, row int
		if err := rows.Scan(&buyer, &worker, &row); err != nil {
			return err
		}
		if worker < 1 || worker > r.Workers || row < 0 || row >= r.Items*r.Segments {
			return fmt.Errorf("an order of worker %d for row %d", worker, row)
		}
		ordered[buyer]++
		sold[row/r.Segments]++
		r.PerWorker[worker-1]++
		if row%r.Segments != buyer/r.Items%r.Segments {
			r.Elsewhere++
		}
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
	for buyer, has := range told {
		if has && ordered[buyer] == 0 {
			r.Lost++
		}
	}
	for buyer, n := range ordered {
		r.SecondPieces += n - 1
		if !told[buyer] {
			r.Duplicates++
		}
	}
	r.Duplicates += r.SecondPieces
	for item, stock := range divide(r.Stock, r.Items) {
		r.Oversold += max(0, sold[item]-stock)
	}
	return nil
}
