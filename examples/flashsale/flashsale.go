// Package flashsale sells a small stock to many buyers at once, from several
// processes, and counts what went wrong.
//
// The stock and the orders are in a real database: a SQLite file, or a PostgreSQL,
// MySQL or MariaDB server. To serve a buyer, a
// worker process reads the stock, works for a moment, and writes what is left
// together with the order. Two that read the same number both sell the same
// piece: the stock is oversold. Each strategy protects these same steps in its
// own way:
//
//	none         not at all
//	mutex        by a lock around them
//	fenced       by a lock, whose token the database checks at each step
//	striped      by a lock for each segment of the stock, which is cut into some
//	optimistic   by writing only if the row's version is still the one that was read
//	pessimistic  by a transaction that locks the row before it reads
//
// The worker processes are copies of the running program, so its main must
// begin with [WorkerMain].
package flashsale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/driver"
)

// Config says what is sold, and how. The zero value of a field is its default.
type Config struct {
	Stock      int            // pieces, at least 1; default 100
	Buyers     int            // each wants one piece, at least Stock; default 1000
	Workers    int            // processes, 1 to 1000; default 4
	Work       time.Duration  // the pause between reading and writing, for every strategy; default 1ms
	Strategies []string       // default Strategies()
	URL        string         // of the locks; default a SQLite file beside the databases
	Database   string         // the URL of the shop's database, where tables are made and removed; default SQLite files
	Dir        string         // gets a new folder with the SQLite files, which stays; default a temporary one, which goes
	Progress   func(Progress) // called ten times a second or so, never twice at once
}

// Progress is how far a sale has come.
type Progress struct {
	Strategy string
	Number   int // of the strategy among Of, from 1
	Of       int
	Stock    int
	Buyers   int
	Orders   int // confirmed to their buyers
	Served   int // buyers who have an answer: an order, or that all is sold
	Elapsed  time.Duration
	Done     bool // this is the strategy's last report
}

// withDefaults returns the configuration to run, or what is wrong with c.
func (c Config) withDefaults() (Config, error) {
	if c.Stock == 0 {
		c.Stock = 100
	}
	if c.Buyers == 0 {
		c.Buyers = max(1000, c.Stock)
	}
	if c.Workers == 0 {
		c.Workers = 4
	}
	if c.Work == 0 {
		c.Work = time.Millisecond
	}
	if c.Strategies == nil {
		c.Strategies = Strategies()
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	switch {
	case c.Stock < 1:
		return c, fmt.Errorf("a stock of %d: at least 1 is needed", c.Stock)
	case c.Buyers < c.Stock:
		return c, fmt.Errorf("%d buyers for a stock of %d: at least as many are needed to sell it all", c.Buyers, c.Stock)
	case c.Workers < 1 || c.Workers > 1000:
		return c, fmt.Errorf("%d workers: 1 to 1000 are possible", c.Workers)
	case c.Work < 0:
		return c, fmt.Errorf("work of %v: it cannot be negative", c.Work)
	case len(c.Strategies) == 0:
		return c, errors.New("no strategy is given")
	}
	for i, s := range c.Strategies {
		if strategies[s] == nil {
			return c, fmt.Errorf("unknown strategy %q; there are %s", s, strings.Join(Strategies(), ", "))
		}
		if slices.Contains(c.Strategies[:i], s) {
			return c, fmt.Errorf("strategy %q is given twice", s)
		}
	}
	if c.URL != "" {
		u, err := driver.ParseURL(c.URL)
		if err != nil {
			return c, fmt.Errorf("the locks: %w", err)
		}
		if u.Scheme == "mem" {
			return c, fmt.Errorf("the locks: %s is the memory of one process, and the workers are several", u)
		}
	}
	if c.Database != "" {
		if err := (place{URL: c.Database}).check(); err != nil {
			return c, fmt.Errorf("the database: %w", err)
		}
	}
	return c, nil
}

// Run sells the stock once with each strategy and returns what came of it, in
// the order of c.Strategies. A configuration that makes no sense is
// [driver.ErrInvalid]. That a strategy oversold is a result, not an error;
// see [Check]. If ctx ends or a worker fails, the workers are killed, and Run
// returns the results so far with the error.
func Run(ctx context.Context, c Config) (results []Result, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("flash sale: %w", driver.Invalid(err))
	}
	if os.Getenv(workerVariable) != "" {
		return nil, fmt.Errorf("flash sale: %s is set: this is a worker process, whose main should have begun with flashsale.WorkerMain()", workerVariable)
	}
	dir, err := os.MkdirTemp(c.Dir, "flash-sale-")
	if err != nil {
		return nil, fmt.Errorf("flash sale: %w", err)
	}
	if c.Dir == "" {
		defer func() {
			if gone := os.RemoveAll(dir); gone != nil && err == nil {
				err = fmt.Errorf("flash sale: %w", gone)
			}
		}()
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("flash sale: %w", err)
	}
	if c.URL == "" {
		c.URL = fileURL("sqlite", filepath.Join(dir, "locks.db"))
	}
	for i, strategy := range c.Strategies {
		result, err := sale{Config: c, strategy: strategy, number: i + 1, dir: dir}.run(ctx)
		if err != nil {
			if err := ended(ctx); err != nil {
				return results, fmt.Errorf("flash sale: %s: %w", strategy, err)
			}
			return results, fmt.Errorf("flash sale: %s: %w", strategy, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// ended is nil before the end of ctx, then why it ended.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
