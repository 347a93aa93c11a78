package flashsale

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// sale is a sale with one strategy.
type sale struct {
	Config
	strategy strategy
	name     string // of the strategy
	segments int    // of each item
	url      string // of the locks; empty if it has none
	dir      string
	number   int
	of       int
}

// String tells a sale from others with the same strategy.
func (s sale) String() string {
	label := s.name
	if s.strategy.cut {
		label += fmt.Sprintf(", %d", s.segments)
	}
	if s.url != "" && len(s.URLs) > 1 {
		label += ", " + scheme(s.url)
	}
	return label
}

func scheme(url string) string {
	scheme, _, _ := strings.Cut(url, ":")
	return scheme
}

// redacted is a URL without its password.
func redacted(url string) string {
	if u, err := driver.ParseURL(url); err == nil {
		return u.String()
	}
	return ""
}

func (s sale) run(ctx context.Context) (r Result, err error) {
	name := strings.ToLower(rand.Text()[:12]) // whoever else sells at the same place has another
	shop := place{File: filepath.Join(s.dir, fmt.Sprintf("%s-%d.db", s.name, s.number)), Sale: name}
	if s.Database != "" {
		shop = place{URL: s.Database, Prefix: "flash_sale_" + name + "_", Sale: name}
	}
	db, err := openStore(ctx, shop, 1)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, db.remove(ctx), db.close()) }()
	var parts []int
	for _, stock := range divide(s.Stock, s.Items) {
		parts = append(parts, cut(stock, s.segments)...)
	}
	if err := db.fill(ctx, parts, s.strategy.loose); err != nil {
		return Result{}, fmt.Errorf("make the tables in %v: %w", shop, err)
	}

	var queue *counter
	if s.strategy.redis {
		if queue, err = openCounter(s.url, name); err != nil {
			return Result{}, err
		}
		defer queue.close()
		defer func() { err = errors.Join(err, queue.remove(ctx)) }()
		if err := queue.fill(ctx, parts); err != nil {
			return Result{}, fmt.Errorf("make the keys in %s: %w", redacted(s.url), err)
		}
	}

	r = Result{
		Strategy: s.name, Label: s.String(), Stock: s.Stock, Buyers: s.Buyers, Workers: s.Workers,
		URL: redacted(s.url), Items: s.Items, Segments: s.segments, Strike: s.Strike, strategy: s.strategy,
	}
	crew, err := hire(ctx, job{
		Strategy: s.name,
		Items:    s.Items,
		Segments: s.segments,
		Work:     s.Work,
		Shop:     shop,
		URL:      s.url,
		TTL:      s.Strike.ttl(),
		Lock:     "flash-sale/" + name,
		Strike:   s.Strike.at(parts[0]),
	}, s.Workers)
	if err != nil {
		return Result{}, err
	}
	defer crew.dismiss()
	rush := &rush{sale: s, crew: crew, db: db, result: &r, open: map[int]request{}, at: map[int]*worker{}, answered: map[int]bool{}}
	if err := rush.conduct(ctx); err != nil {
		if queue != nil && ctx.Err() == nil {
			err = cmp.Or(queue.answers(ctx), err)
		}
		return Result{}, err
	}
	if err := db.audit(ctx, &r, rush.answered); err != nil {
		return Result{}, fmt.Errorf("count the orders: %w", err)
	}
	if queue != nil {
		if r.Differences, err = queue.differences(ctx, db); err != nil {
			return Result{}, fmt.Errorf("compare Redis with the orders: %w", err)
		}
	}
	if r.Seconds > 0 {
		r.OrdersPerSecond = float64(r.Orders) / r.Seconds
	}
	return r, nil
}

// rush is the buyers of a sale, and what they are told.
type rush struct {
	sale
	crew   *crew
	db     *store
	result *Result

	clicks   int             // so far
	open     map[int]request // clicks without an answer
	at       map[int]*worker // of these
	answered map[int]bool    // buyers with an answer: whether one of them was that they have an order
	orders   int             // so far
	began    time.Time
	last     time.Time // answer
	written  time.Time // order of a consumer
	strike   striking
}

// conduct lets all buyers click and returns when the workers have served them and ended.
func (r *rush) conduct(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	defer r.strike.end()
	r.report(false)
	for readied, finished := 0, 0; finished < r.Workers; {
		select {
		case <-ctx.Done():
			return ended(ctx)
		case <-tick.C:
			r.report(false)
			if err := r.relent(); err != nil {
				return err
			}
		case e := <-r.crew.events:
			switch {
			case e.err != nil:
				return e.err
			case e.ended:
				if err := r.crew.add(e.worker.number); err != nil {
					return err
				}
			case e.Kind == ready:
				switch readied++; {
				case readied == r.Workers:
					r.arrive()
				case readied > r.Workers:
					r.replace(e.worker)
				}
			case e.Kind == midway:
				if err := r.struck(ctx, e.worker); err != nil {
					return err
				}
			case e.Kind == answer:
				if err := r.answer(e); err != nil {
					return err
				}
			case e.Kind == written:
				r.written = time.Now()
			case e.Kind == done:
				r.result.Retries += e.Retries
				r.result.Refused += e.Refused
				r.result.TakenOver += e.TakenOver
				r.result.Repeated += e.Repeated
				finished++
			}
		}
	}
	r.crew.wait()
	r.result.Seconds = r.last.Sub(r.began).Seconds()
	if !r.written.IsZero() {
		r.result.Written = r.written.Sub(r.began).Seconds()
	}
	r.result.NextSale = r.strike.next()
	r.report(true)
	return nil
}

// arrive lets all buyers click, every fifth twice, at two workers. If a worker is struck,
// each clicks once, so that its buyer does not get the last piece elsewhere meanwhile.
func (r *rush) arrive() {
	r.began = time.Now()
	for buyer := range r.Buyers {
		r.click(buyer, buyer)
		if buyer%5 == 4 && r.Strike == NoStrike {
			r.click(buyer, buyer+1)
		}
	}
	r.settle()
}

// click is a buyer's, at the worker whose turn it is.
func (r *rush) click(buyer, turn int) {
	w := r.crew.workers[turn%r.Workers]
	q := request{Kind: click, Click: r.clicks, Buyer: buyer}
	r.clicks++
	r.open[q.Click], r.at[q.Click] = q, w
	w.ask(q)
}

// replace sends a new worker the clicks that the one in whose place it is did not answer.
func (r *rush) replace(w *worker) {
	for _, c := range slices.Sorted(maps.Keys(r.open)) {
		if old := r.at[c]; old.number == w.number && old != w {
			r.at[c] = w
			w.ask(r.open[c])
		}
	}
	r.settle()
}

// answer is a worker's. Of every seventh buyer the first one gets lost on its way, so that
// the buyer asks another worker.
func (r *rush) answer(e event) error {
	q, ok := r.open[e.Click]
	if !ok {
		return fmt.Errorf("worker %d answered click %d twice", e.worker.number, e.Click)
	}
	delete(r.open, e.Click)
	delete(r.at, e.Click)
	r.last = time.Now()
	if e.New {
		r.orders++
		r.result.times = append(r.result.times, r.last.Sub(r.began))
	}
	if _, again := r.answered[q.Buyer]; q.Buyer%7 == 6 && !again {
		r.answered[q.Buyer] = false
		r.click(q.Buyer, e.worker.number)
	} else {
		r.answered[q.Buyer] = r.answered[q.Buyer] || e.Sold
	}
	if r.orders >= r.Stock {
		if err := r.goOn(); err != nil {
			return err
		}
	}
	r.settle()
	return nil
}

// settle closes the sale when every click has its answer.
func (r *rush) settle() {
	if len(r.open) == 0 {
		for _, w := range r.crew.workers {
			w.ask(request{Kind: shut})
		}
	}
}

func (r *rush) report(done bool) {
	p := Progress{
		Strategy: r.String(), Number: r.number, Of: r.of, Stock: r.Stock, Buyers: r.Buyers,
		Served: len(r.answered), Done: done,
	}
	for _, has := range r.answered {
		if has {
			p.Orders++
		}
	}
	if !r.began.IsZero() {
		p.Elapsed = time.Since(r.began)
	}
	r.Progress(p)
}
