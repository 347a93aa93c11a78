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
	var (
		c    flashsale.Config
		stop bool
		kill bool
	)
	cmd := &cobra.Command{
		Use:   "flash-sale",
		Short: "Sell a small stock from several processes, with and without locks",
		Long: `Flash-sale starts several processes that sell a small stock, kept in a real database,
to many buyers. Every fifth buyer clicks twice, and of every seventh the reply is lost, so
that the buyer asks again. Each strategy protects the sale in its own way:

` + strategies() + `
--stop stops a worker (SIGSTOP) that holds the lock and has read the last piece, until
another has sold it, and then continues it: mutex sells one too many, and with fenced the
database refuses the late write. --kill kills a worker while it holds the lock: how long
until the next sale? Both use mutex and fenced, and locks with a TTL of 2 s. With lua, --kill
kills a consumer that has written an order and not acknowledged its entry of the Stream.

The exit status is 0 if every strategy but none and local, and mutex with --stop, sold
exactly the stock. --url puts the locks elsewhere; by default they are in a file of their
own, beside the database. Given several times, mutex is shown on each of the backends, and
other strategies use the first. Lua uses the first that is Redis, and is left out if there is
none. The shop's tables are in SQLite files, or on the server of
--database, where they get names of their own and are removed at the end:

  --database postgres://user:password@host:5432/database
  --database mysql://user:password@host:3306/database      (MariaDB too)`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, end := untilSignal(cmd.Context())
			defer end()
			warnOfPs(cmd, "--database", c.Database, "")
			for name, n := range map[string]int{"stock": c.Stock, "buyers": c.Buyers, "workers": c.Workers, "items": c.Items} {
				if n < 1 {
					return usage("--%s %d: at least 1 is needed", name, n)
				}
			}
			switch {
			case stop && kill:
				return usage("--stop and --kill exclude each other")
			case stop:
				c.Strike = flashsale.Stop
			case kill:
				c.Strike = flashsale.Kill
			}
			var err error
			if c.URLs, err = o.saleURLs(ctx); err != nil {
				return err
			}
			w := unfiltered(cmd.ErrOrStderr())
			show := &progressLine{w, isTerminal(w)}
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
			var exit *exitError
			switch {
			case errors.Is(err, interlock.ErrInvalid), errors.As(err, &exit):
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
	cmd.Flags().IntVar(&c.Items, "items", 1, "hot items, among which the stock is divided")
	cmd.Flags().StringSliceVar(&c.Strategies, "strategy", nil, "only this strategy (repeatable; default all, lua only on Redis)")
	cmd.Flags().BoolVar(&stop, "stop", false, "stop a worker past its lease, in the middle of a sale, and continue it")
	cmd.Flags().BoolVar(&kill, "kill", false, "kill a worker while it holds the lock, or its entries of the Stream (lua)")
	cmd.Flags().StringVar(&c.Database, "database", "", "the `URL` of a PostgreSQL, MySQL or MariaDB server for the shop")
	cmd.Flags().StringVar(&c.Dir, "dir", "", "keep the SQLite files in a new folder here")
	return cmd
}

// strategies is the list of strategies for people.
func strategies() string {
	var b strings.Builder
	for _, name := range flashsale.Strategies() {
		fmt.Fprintf(&b, "  %-12s %s\n", name, flashsale.Idea(name))
	}
	return b.String()
}

// saleURLs are where the locks of a sale are. Unlike those of other commands, they are not
// where INTERLOCK_URL says: a demonstration does not go to a backend that nobody named.
func (o *options) saleURLs(ctx context.Context) (urls []string, err error) {
	if o.local {
		return nil, usage("the locks of the sale are in a file of their own: leave --local out")
	}
	if len(o.named()) == 0 {
		return nil, nil
	}
	backends, err := o.backends(ctx)
	for _, b := range backends {
		urls = append(urls, b.url)
	}
	return urls, err
}

// progressLine shows on a terminal how far the sale is; elsewhere a line for
// each strategy is enough.
type progressLine struct {
	w        io.Writer
	terminal bool
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
