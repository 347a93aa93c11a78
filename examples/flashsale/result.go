package flashsale

import (
	"errors"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Result is what came of one strategy, counted in the database afterwards and
// compared with what the workers told their buyers.
type Result struct {
	Strategy        string  `json:"strategy"`
	Stock           int     `json:"stock"`
	Buyers          int     `json:"buyers"`
	Workers         int     `json:"workers"`
	Orders          int     `json:"orders"`
	Oversold        int     `json:"oversold"`   // orders beyond the stock
	Left            int     `json:"left"`       // stock in the database at the end
	Lost            int     `json:"lost"`       // orders that were confirmed and are not there
	Duplicates      int     `json:"duplicates"` // orders that are there and were not confirmed, such as a buyer's second
	Retries         int     `json:"retries"`    // sales that had to begin again
	Seconds         float64 `json:"seconds"`    // from the first buyer to the last answer
	OrdersPerSecond float64 `json:"orders_per_second"`
	Between         int     `json:"handovers_between_processes"` // successive orders of two processes
	Within          int     `json:"handovers_within_a_process"`  // successive orders of one process
}

// Exact reports whether exactly the stock was sold, each piece to a buyer who
// knows.
func (r Result) Exact() bool {
	return r.Orders == r.Stock && r.Left == 0 && r.Lost == 0 && r.Duplicates == 0
}

// Check returns nil if every strategy but "none" sold exactly the stock, and
// otherwise says which did not.
func Check(results []Result) error {
	var errs []error
	for _, r := range results {
		if r.Strategy != "none" && !r.Exact() {
			errs = append(errs, fmt.Errorf("flash sale: %s: %d orders for a stock of %d, %d left; %d lost, %d duplicates",
				r.Strategy, r.Orders, r.Stock, r.Left, r.Lost, r.Duplicates))
		}
	}
	return errors.Join(errs...)
}

// WriteTable writes the results for people.
func WriteTable(w io.Writer, results []Result) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	header := table.Row{"strategy", "stock", "orders", "oversold", "left", "lost", "duplicates", "retries",
		"seconds", "orders/s", "hand-overs\nbetween", "hand-overs\nwithin"}
	t.AppendHeader(header)
	var columns []table.ColumnConfig
	for i := 2; i <= len(header); i++ {
		columns = append(columns, table.ColumnConfig{Number: i, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	for _, r := range results {
		t.AppendRow(table.Row{r.Strategy, r.Stock, r.Orders, r.Oversold, r.Left, r.Lost, r.Duplicates, r.Retries,
			fmt.Sprintf("%.2f", r.Seconds), fmt.Sprintf("%.0f", r.OrdersPerSecond), r.Between, r.Within})
	}
	t.Render()
}
