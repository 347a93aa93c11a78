package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/examples/flashsale"
)

func newDemo(o *options) *cobra.Command {
	return group("demo", "See what locks are for", newFlashSale(o))
}

func newFlashSale(o *options) *cobra.Command {
	var c flashsale.Config
	cmd := &cobra.Command{
		Use:   "flash-sale",
		Short: "Sell a small stock from several processes, with and without locks",
		Long: `Flash-sale starts several processes that sell a small stock, kept in a real database,
to many buyers. Without a lock they sell more than there is. Each strategy protects the
same steps in its own way, and sells exactly the stock:

  none         not at all: it oversells
  mutex        by a lock around reading and writing
  fenced       by a lock whose token the database checks
  striped      by a lock for each segment of the stock
  optimistic   by writing only if nobody has written since
  pessimistic  by a transaction that locks the row before it reads

The exit status is 0 if every strategy but none sold exactly the stock. --url puts the
locks elsewhere; by default they are in a file of their own, beside the database. The
shop's tables are in SQLite files, or on the server of --database, where they get names
of their own and are removed at the end:

  --database postgres://user:password@host:5432/database
  --database mysql://user:password@host:3306/database      (MariaDB too)`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			warnOfPs(cmd, "--database", c.Database, "")
			for name, n := range map[string]int{"stock": c.Stock, "buyers": c.Buyers, "workers": c.Workers} {
				if n < 1 {
					return usage("--%s %d: at least 1 is needed", name, n)
				}
			}
			if o.url != "" || o.urlFile != "" {
				b, err := o.backend()
				if err != nil {
					return err
				}
				c.URL = b.url
			}
			show := progress(unfiltered(cmd.ErrOrStderr()))
			c.Progress = show.report
			results, err := flashsale.Run(ctx, c)
			show.clear()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			switch {
			case o.json:
				if results == nil {
					results = []flashsale.Result{}
				}
				if wrong := writeJSON(cmd.OutOrStdout(), results); err == nil {
					err = wrong
				}
			case len(results) > 0:
				flashsale.WriteTable(cmd.OutOrStdout(), results)
			}
			switch {
			case errors.Is(err, interlock.ErrInvalid):
				return err
			case err != nil:
				return failed(exitUnreachable, err)
			}
			return flashsale.Check(results)
		},
	}
	cmd.Flags().IntVar(&c.Stock, "stock", 100, "pieces to sell")
	cmd.Flags().IntVar(&c.Buyers, "buyers", 1000, "buyers, who want one piece each")
	cmd.Flags().IntVar(&c.Workers, "workers", 4, "processes that sell")
	cmd.Flags().StringSliceVar(&c.Strategies, "strategy", flashsale.Strategies(), "only these strategies")
	cmd.Flags().StringVar(&c.Database, "database", "", "the `URL` of a PostgreSQL, MySQL or MariaDB server for the shop")
	cmd.Flags().StringVar(&c.Dir, "dir", "", "keep the SQLite files in a new folder here")
	return cmd
}

// progressLine shows on a terminal how far the sale is; elsewhere a line for
// each strategy is enough.
type progressLine struct {
	w        io.Writer
	terminal bool
}

func progress(w io.Writer) *progressLine {
	return &progressLine{w, isTerminal(w)}
}

func (p *progressLine) report(s flashsale.Progress) {
	const width = 30
	if p.terminal {
		bar := width * s.Served / max(s.Buyers, 1)
		fmt.Fprintf(p.w, "\r\x1b[K%d/%d %-12s [%s%s] %d of %d buyers served, %d orders",
			s.Number, s.Of, s.Strategy, strings.Repeat("=", bar), strings.Repeat(" ", width-bar), s.Served, s.Buyers, s.Orders)
		return
	}
	if s.Done {
		fmt.Fprintf(p.w, "%d/%d %s: %d orders in %.1f s\n", s.Number, s.Of, s.Strategy, s.Orders, s.Elapsed.Seconds())
	}
}

func (p *progressLine) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
