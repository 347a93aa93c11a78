// Package flashsale sells a small stock to many buyers at once, from several
// processes, and counts what went wrong.
//
// The stock and the orders are in a real database: a SQLite file, or a PostgreSQL,
// MySQL or MariaDB server. To serve a buyer, a worker process reads the stock, works
// for a moment, and writes what is left together with the order. Two that read the
// same number both sell the same piece: the stock is oversold. Each strategy protects
// these steps in its own way. [Strategies] lists them, and each has a file of its own. One of
// them sells from a stock in Redis and writes the orders to the database afterwards.
//
// Buyers are impatient: every fifth clicks twice, at two workers, and of every seventh
// the reply is lost, so that the buyer asks again at another worker. Nobody is to get
// a second piece by that.
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
	Items      int            // among which the stock is divided, 1 to Stock; a buyer wants a certain one; default 1
	Work       time.Duration  // the pause between reading and writing, for every strategy; default 1ms
	Strategies []string       // default all of Strategies() that can be used
	URLs       []string       // of the locks: mutex is used on each, lua on the first of Redis, others on the first; default a SQLite file beside the databases
	Database   string         // the URL of the shop's database, where tables are made and removed; default SQLite files
	Dir        string         // gets a new folder with the SQLite files, which stays; default a temporary one, which goes
	Strike     Strike         // what happens to a worker in the middle of a sale; default nothing
	Progress   func(Progress) // called ten times a second or so, never twice at once
}

// Progress is how far a sale has come.
type Progress struct {
	Strategy string // and what else tells this sale from others
	Number   int    // of the sale among Of, from 1
	Of       int
	Stock    int
	Buyers   int
	Orders   int // confirmed to their buyers
	Served   int // buyers who have an answer: an order, or that all is sold
	Elapsed  time.Duration
	Done     bool // this is the sale's last report
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
	if c.Items == 0 {
		c.Items = 1
	}
	if c.Work == 0 {
		c.Work = time.Millisecond
	}
	if c.Strategies == nil {
		c.Strategies = c.usable()
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
	case c.Items < 1 || c.Items > c.Stock:
		return c, fmt.Errorf("%d items for a stock of %d: 1 to %d are possible", c.Items, c.Stock, max(1, c.Stock))
	case c.Work < 0:
		return c, fmt.Errorf("work of %v: it cannot be negative", c.Work)
	case c.Strike != NoStrike && c.Strike != Stop && c.Strike != Kill:
		return c, fmt.Errorf("unknown strike %q; there are %q and %q", c.Strike, Stop, Kill)
	case len(c.Strategies) == 0:
		return c, errors.New("no strategy is given")
	}
	if err := c.checkURLs(); err != nil {
		return c, err
	}
	for i, s := range c.Strategies {
		known, ok := strategies[s]
		switch {
		case !ok:
			return c, fmt.Errorf("unknown strategy %q; there are %s", s, strings.Join(Strategies(), ", "))
		case slices.Contains(c.Strategies[:i], s):
			return c, fmt.Errorf("strategy %q is given twice", s)
		case known.redis && c.redis() == "":
			return c, fmt.Errorf("strategy %q sells in Redis, and none of the URLs is one of Redis, as redis://host:6379 is", s)
		}
		if err := c.Strike.check(known, c.Workers); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c Config) checkURLs() error {
	for i, url := range c.URLs {
		u, err := driver.ParseURL(url)
		switch {
		case err != nil:
			return fmt.Errorf("the locks: %w", err)
		case u.Scheme == "mem":
			return fmt.Errorf("the locks: %s is the memory of one process, and the workers are several", u)
		case slices.Contains(c.URLs[:i], url):
			return fmt.Errorf("the locks: %s is given twice", u)
		}
	}
	if c.Database != "" {
		if err := (place{URL: c.Database}).check(); err != nil {
			return fmt.Errorf("the database: %w", err)
		}
	}
	return nil
}

// usable lists the strategies that this configuration has everything for.
func (c Config) usable() []string {
	return slices.DeleteFunc(Strategies(), func(name string) bool {
		s := strategies[name]
		return c.Strike != NoStrike && !slices.Contains(s.struck, c.Strike) || s.redis && c.redis() == ""
	})
}

// redis is the first URL of a Redis server, or empty.
func (c Config) redis() string {
	if i := slices.IndexFunc(c.URLs, isRedis); i >= 0 {
		return c.URLs[i]
	}
	return ""
}

// sales lists what is to be sold how: once for each strategy, but mutex on each
// backend, and striped with each number of segments.
func (c Config) sales(dir string) (all []sale) {
	urls := c.URLs
	if len(urls) == 0 {
		urls = []string{fileURL("sqlite", filepath.Join(dir, "locks.db"))}
	}
	for _, name := range c.Strategies {
		s := sale{Config: c, strategy: strategies[name], name: name, segments: 1, dir: dir}
		switch {
		case name == "mutex":
			for _, s.url = range urls {
				all = append(all, s)
			}
			continue
		case s.strategy.redis:
			s.url = c.redis()
		case s.strategy.locks:
			s.url = urls[0]
		}
		if !s.strategy.cut {
			all = append(all, s)
			continue
		}
		for _, n := range segmentCounts {
			if s.segments = n; n == 1 || n <= c.Stock/c.Items {
				all = append(all, s)
			}
		}
	}
	for i := range all {
		all[i].number, all[i].of = i+1, len(all)
	}
	return all
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
	for _, s := range c.sales(dir) {
		result, err := s.run(ctx)
		if ended := ended(ctx); err != nil && ended != nil {
			err = ended
		}
		if err != nil {
			return results, fmt.Errorf("flash sale: %s: %w", s, err)
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
