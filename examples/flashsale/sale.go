package flashsale

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// sale is a sale with one strategy.
type sale struct {
	Config
	strategy string
	number   int
	dir      string
}

func (s sale) run(ctx context.Context) (r Result, err error) {
	items := 1
	if s.strategy == "striped" {
		items = min(segments, s.Stock)
	}
	shop := place{File: filepath.Join(s.dir, s.strategy+".db")}
	if s.Database != "" {
		shop = place{URL: s.Database, Prefix: "flash_sale_" + strings.ToLower(rand.Text()[:12]) + "_"}
	}
	db, err := openStore(ctx, shop, 1)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, db.remove(ctx), db.close()) }()
	if err := db.fill(ctx, s.Stock, items); err != nil {
		return Result{}, fmt.Errorf("make the tables in %v: %w", shop, err)
	}

	r = Result{Strategy: s.strategy, Stock: s.Stock, Buyers: s.Buyers, Workers: s.Workers}
	confirmed, err := s.sell(ctx, &r, job{
		Strategy: s.strategy,
		Workers:  s.Workers,
		Buyers:   s.Buyers,
		Items:    items,
		Work:     s.Work,
		Shop:     shop,
		URL:      s.URL,
		Lock:     "flash-sale/" + rand.Text(), // whoever else sells at the same backend has another
	})
	if err != nil {
		return Result{}, err
	}
	if err := db.audit(ctx, &r, confirmed); err != nil {
		return Result{}, fmt.Errorf("count the orders: %w", err)
	}
	if r.Seconds > 0 {
		r.OrdersPerSecond = float64(r.Orders) / r.Seconds
	}
	return r, nil
}

// sell lets the workers serve all buyers and returns those who were told that
// they have an order.
func (s sale) sell(ctx context.Context, r *Result, j job) (confirmed map[int]bool, err error) {
	crew, err := hire(ctx, j)
	if err != nil {
		return nil, err
	}
	defer crew.dismiss()

	p := Progress{Strategy: s.strategy, Number: s.number, Of: len(s.Strategies), Stock: s.Stock, Buyers: s.Buyers}
	s.Progress(p)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()

	var began, answered time.Time
	report := func() {
		if !began.IsZero() {
			p.Elapsed = time.Since(began)
		}
		s.Progress(p)
	}
	confirmed = map[int]bool{}
	for readied, finished := 0, 0; finished < s.Workers; {
		select {
		case <-ctx.Done():
			return nil, ended(ctx)
		case <-tick.C:
			report()
		case e := <-crew.events:
			switch {
			case e.err != nil:
				return nil, e.err
			case e.Kind == ready:
				if readied++; readied == s.Workers {
					began = time.Now()
					crew.start()
				}
			case e.Kind == answer:
				answered = time.Now()
				p.Served++
				if e.Sold {
					p.Orders++
					confirmed[e.Buyer] = true
				}
			case e.Kind == done:
				r.Retries += e.Retries
				finished++
			}
		}
	}
	crew.wait()
	r.Seconds = answered.Sub(began).Seconds()
	p.Done = true
	report()
	return confirmed, nil
}
