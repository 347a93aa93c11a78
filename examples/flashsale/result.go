package flashsale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Result is what came of one strategy, counted in the database afterwards and
// compared with what the buyers were told.
type Result struct {
	Strategy        string  `json:"strategy"`
	Stock           int     `json:"stock"`
	Buyers          int     `json:"buyers"`
	Workers         int     `json:"workers"`
	Orders          int     `json:"orders"`
	Oversold        int     `json:"oversold"`   // orders beyond the stock
	Left            int     `json:"left"`       // stock in the database at the end
	Lost            int     `json:"lost"`       // buyers who were told of an order that is not there
	Duplicates      int     `json:"duplicates"` // orders that are there and should not be: second pieces, and orders of buyers who were not told
	Retries         int     `json:"retries"`    // sales that had to begin again
	Seconds         float64 `json:"seconds"`    // from the first buyer to the last answer
	OrdersPerSecond float64 `json:"orders_per_second"`
	Between         int     `json:"handovers_between_processes"` // successive orders of two processes
	Within          int     `json:"handovers_within_a_process"`  // successive orders of one process

	URL          string  `json:"url"`           // of the locks, without its password; empty if there are none
	Refused      int     `json:"refused"`       // writes whose token was older than one that the database had seen
	SecondPieces int     `json:"second_pieces"` // orders of buyers who have one already
	PerWorker    []int   `json:"orders_per_worker"`
	Items        int     `json:"items"`
	Segments     int     `json:"segments"`                // of each item
	Strike       Strike  `json:"strike,omitempty"`        // what happened to a worker
	Stopped      float64 `json:"stopped_seconds"`         // how long a worker was stopped
	NextSale     float64 `json:"next_sale_after_seconds"` // from the death of a worker that was killed to the next order

	// Of lua.
	Differences int     `json:"differences"`     // buyers and pieces that Redis, its Stream and the table do not agree on
	TakenOver   int     `json:"taken_over"`      // entries of the Stream that a consumer took over from another
	Repeated    int     `json:"repeated"`        // entries whose order was in the table already
	Written     float64 `json:"written_seconds"` // from the first buyer to the last order in the table

	Label string          `json:"-"` // the strategy, and what else tells this sale from others
	times []time.Duration // of orders, from the first buyer
}

// Exact reports whether exactly the stock was sold, each piece to a buyer who
// knows.
func (r Result) Exact() bool {
	return r.Orders == r.Stock && r.Oversold == 0 && r.Left == 0 && r.Lost == 0 && r.Duplicates == 0 && r.Differences == 0
}

// mayFail reports whether the strategy does not promise to sell exactly the stock: a
// lock of a process among several, and a lock without a fence whose holder was stopped.
func (r Result) mayFail() bool {
	switch r.Strategy {
	case "local":
		return r.Workers > 1
	case "mutex":
		return r.Strike == Stop
	}
	return strategies[r.Strategy].wrong
}

// Check returns nil if every strategy that promises it sold exactly the stock, and
// otherwise says which did not. None and local do not promise it, nor does mutex if a
// worker was stopped.
func Check(results []Result) error {
	var errs []error
	for _, r := range results {
		if !r.mayFail() && !r.Exact() {
			errs = append(errs, fmt.Errorf("flash sale: %s: %d orders for a stock of %d, %d left; %d lost, %d duplicates, %d differences between Redis and the orders",
				r.Label, r.Orders, r.Stock, r.Left, r.Lost, r.Duplicates, r.Differences))
		}
	}
	return errors.Join(errs...)
}

// audit counts in the database what was sold, and compares it with what the buyers
// were told: told has those with an answer, and whether they have an order.
func (s *store) audit(ctx context.Context, r *Result, told map[int]bool) error {
	items, err1 := s.triples(ctx, "SELECT stock, 0, 0 FROM items")
	orders, err2 := s.triples(ctx, "SELECT buyer, worker - 1, item FROM orders ORDER BY number")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, item := range items {
		r.Left += item[0]
	}
	r.Orders, r.PerWorker = len(orders), make([]int, r.Workers)
	ordered, sold := map[int]int{}, make([]int, r.Items)
	for i, o := range orders {
		buyer, worker, item := o[0], o[1], o[2]/r.Segments
		ordered[buyer]++
		sold[item]++
		r.PerWorker[worker]++
		if i > 0 && worker == orders[i-1][1] {
			r.Within++
		}
	}
	r.Between, r.OrdersPerSecond = max(0, r.Orders-1-r.Within), float64(r.Orders)/r.Seconds
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

// newTable is the results for people. A column that is empty for all results is left out.
func newTable(results []Result) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators // 80 columns are enough for all
	t.Style().Options.SeparateHeader = true
	t.Style().Box.PaddingLeft = ""
	t.Style().Format = table.FormatOptions{HeaderAlign: text.AlignRight, RowAlign: text.AlignRight}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 1, Align: text.AlignLeft, AlignHeader: text.AlignLeft}})
	t.SuppressEmptyColumns()
	t.AppendHeader(table.Row{
		"strategy", "orders", "oversold", "left", "lost", "refused", "stopped\nfor",
		"next sale\nafter", "differences", "taken\nover", "tries per\npiece", "seconds", "written\nafter",
		"per worker", "taken from\nanother",
	})
	when := func(shown bool, format string, v any) string {
		if !shown {
			return ""
		}
		return fmt.Sprintf(format, v)
	}
	some := func(n int) string { return when(n != 0, "%d", n) }
	for _, r := range results {
		redis := strategies[r.Strategy].redis
		t.AppendRow(table.Row{
			r.Label, r.Orders, r.Oversold, some(r.Left), some(r.Lost),
			some(r.Refused), when(r.Strike == Stop, "%.2f s", r.Stopped),
			when(r.Strike == Kill && !redis, "%.2f s", r.NextSale), some(r.Differences), some(r.TakenOver),
			when(r.Retries > r.Refused, "%.1f", float64(r.Retries)/float64(max(1, r.Orders))), fmt.Sprintf("%.2f", r.Seconds),
			when(redis, "%.2f s", r.Written), fmt.Sprintf("%d to %d", slices.Min(r.PerWorker), slices.Max(r.PerWorker)), r.Between,
		})
	}
	return t
}

// WriteTable writes the results for people, and how to read them.
func WriteTable(w io.Writer, results []Result) {
	all := newTable(results).Render() + "\n"
	for _, line := range Reading(results) {
		all += "\n" + text.WrapSoft(line, 80) + "\n"
	}
	for line := range strings.Lines(all) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

// Reading is how to read the results: some sentences about what these results show.
func Reading(results []Result) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	exact := 0
	for _, r := range results {
		if r.Exact() {
			exact++
		}
		switch {
		case r.Strategy == "none" && r.Oversold > 0:
			say("none sold %d too many: two that read the same number sell the same piece.", r.Oversold)
		case r.Strategy == "local" && r.Oversold > 0:
			say("local sold %d too many: a lock of one process does not keep out the other %d.", r.Oversold, r.Workers-1)
		case r.Strategy == "conditional" && r.Exact():
			say("conditional needs no lock: take it where one statement says all of it, and a lock where work between reading and writing, or other systems, are part of it.")
		case r.Strategy == "mutex" && r.Strike == Stop:
			say("A worker was stopped with the last piece in its hands, and went on when another had sold it: %s sold %d too many.", r.Label, r.Oversold)
		case r.Strategy == "fenced" && r.Strike == Stop:
			say("With fenced the database refused its late write (refused: %d).", r.Refused)
		case r.Strategy == "mutex" && r.Strike == Kill:
			say("A worker was killed while it held the lock: next sale after is the time until another got the lock and sold the next piece.")
		case r.Strategy == "fenced" && r.Strike == NoStrike:
			say("mutex and fenced look alike as long as every worker runs: --stop shows the difference, and --kill how long a dead worker keeps the lock.")
		case r.Strategy == "lua" && r.Strike == Kill:
			say("With lua a consumer was killed that had written an order and not acknowledged it: entries of the Stream that others took over: %d; of these with an order that was there and was not written again: %d.", r.TakenOver, r.Repeated)
		}
	}
	say("left: pieces in the database at the end. per worker: how many each has sold. taken from another: how often the lock went to another worker.")
	say("%d of %d sales were exact: an order for each of %d pieces, none lost, and no second one for a buyer who clicked twice or asked again.", exact, len(results), results[0].Stock)
	return all
}
