package flashsale

import (
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
	Elsewhere    int     `json:"from_another_segment"`    // orders from a segment that is not the buyer's first
	Strike       Strike  `json:"strike,omitempty"`        // what happened to a worker
	Stopped      float64 `json:"stopped_seconds"`         // how long a worker was stopped
	NextSale     float64 `json:"next_sale_after_seconds"` // from the death of a worker that was killed to the next order

	// Of lua.
	Differences int     `json:"differences"`     // buyers and pieces that Redis, its Stream and the table do not agree on
	TakenOver   int     `json:"taken_over"`      // entries of the Stream that a consumer took over from another
	Repeated    int     `json:"repeated"`        // entries whose order was in the table already
	Written     float64 `json:"written_seconds"` // from the first buyer to the last order in the table

	Label    string `json:"-"` // the strategy, and what else tells this sale from others
	strategy strategy
	times    []time.Duration // of orders, from the first buyer
}

// Exact reports whether exactly the stock was sold, each piece to a buyer who
// knows.
func (r Result) Exact() bool {
	return r.Orders == r.Stock && r.Oversold == 0 && r.Left == 0 && r.Lost == 0 && r.Duplicates == 0 && r.Differences == 0
}

// mayFail reports whether the strategy does not promise to sell exactly the stock: a
// lock of a process among several, and a lock without a fence whose holder was stopped.
func (r Result) mayFail() bool {
	switch {
	case r.Strategy == "local":
		return r.Workers > 1
	case r.Strike == Stop:
		return r.Strategy == "mutex"
	}
	return r.strategy.wrong
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

// column is one of the table.
type column struct {
	title string
	cell  func(r Result) string
	shown func(r Result) bool // nil: always; else if it is so for any result
}

func number(n int) string { return fmt.Sprint(n) }

var columns = []column{
	{"strategy", func(r Result) string { return r.Label }, nil},
	{"stock", func(r Result) string { return number(r.Stock) }, nil},
	{"orders", func(r Result) string { return number(r.Orders) }, nil},
	{"oversold", func(r Result) string { return number(r.Oversold) }, nil},
	{"left", func(r Result) string { return number(r.Left) }, nil},
	{"lost", func(r Result) string { return number(r.Lost) }, nil},
	{"second\npieces", func(r Result) string { return number(r.SecondPieces) }, nil},
	{"refused", func(r Result) string { return number(r.Refused) }, func(r Result) bool { return r.Refused > 0 || r.Strike == Stop }},
	{"stopped\nfor", func(r Result) string { return seconds(r.Stopped) }, func(r Result) bool { return r.Strike == Stop }},
	{"next sale\nafter", nextSale, func(r Result) bool { return r.Strike == Kill && !r.strategy.redis }},
	{"differences", func(r Result) string { return ofRedis(r, number(r.Differences)) }, func(r Result) bool { return r.strategy.redis }},
	{"taken\nover", func(r Result) string { return ofRedis(r, number(r.TakenOver)) }, func(r Result) bool { return r.TakenOver > 0 }},
	{"failed tries\nper piece", failedTries, func(r Result) bool { return r.Retries > r.Refused }},
	{"seconds", func(r Result) string { return fmt.Sprintf("%.2f", r.Seconds) }, nil},
	{"written\nafter", func(r Result) string { return ofRedis(r, seconds(r.Written)) }, func(r Result) bool { return r.strategy.redis }},
	{"orders/s", func(r Result) string { return fmt.Sprintf("%.0f", r.OrdersPerSecond) }, nil},
	{"orders per\nworker", perWorker, nil},
	{"hand-overs\nbetween", func(r Result) string { return number(r.Between) }, nil},
	{"hand-overs\nwithin", func(r Result) string { return number(r.Within) }, nil},
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func nextSale(r Result) string {
	if r.strategy.redis {
		return ""
	}
	return seconds(r.NextSale)
}

// ofRedis is a cell that is empty unless the stock is in Redis.
func ofRedis(r Result, cell string) string {
	if !r.strategy.redis {
		return ""
	}
	return cell
}

func failedTries(r Result) string {
	if r.Retries == 0 || r.Orders == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(r.Retries)/float64(r.Orders))
}

func perWorker(r Result) string {
	if len(r.PerWorker) > 6 {
		return fmt.Sprintf("%d to %d", slices.Min(r.PerWorker), slices.Max(r.PerWorker))
	}
	return strings.Trim(fmt.Sprint(r.PerWorker), "[]")
}

// columnsOf are those that say something about the results.
func columnsOf(results []Result) []column {
	return slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return c.shown != nil && !slices.ContainsFunc(results, c.shown)
	})
}

// WriteTable writes the results for people, and how to read them.
func WriteTable(w io.Writer, results []Result) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	var header table.Row
	var configs []table.ColumnConfig
	shown := columnsOf(results)
	for i, c := range shown {
		header = append(header, c.title)
		if i > 0 {
			configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(configs)
	for _, r := range results {
		var row table.Row
		for _, c := range shown {
			row = append(row, c.cell(r))
		}
		t.AppendRow(row)
	}
	t.Render()
	fmt.Fprintln(w)
	for _, sentence := range Reading(results) {
		fmt.Fprintln(w, sentence)
	}
}
