// Package flashsale sells a small stock to many buyers at once, from several
// processes, and counts what went wrong.
//
// The stock and the orders are in a real database: a SQLite file, or a PostgreSQL,
// MySQL or MariaDB server. To serve a buyer, a worker process reads the stock, works
// for a moment, and writes what is left together with the order. Two that read the
// same number both sell the same piece: the stock is oversold. Each strategy protects
// these steps in its own way (strategy.go). One of them sells from a stock in Redis and
// writes the orders to the database afterwards (lua.go).
//
// Buyers are impatient: every fifth clicks twice, at two workers, and of every seventh
// the reply is lost, so that the buyer asks again at another worker. Nobody is to get
// a second piece by that.
//
// The worker processes are copies of the running program, so its main must
// begin with [WorkerMain].
package flashsale

import (
	"cmp"
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
	Strategies []string       // default all of Strategies() that can be used
	URLs       []string       // of the locks: mutex is used on each, lua on the first of Redis, others on the first; default a SQLite file
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
	Buyers   int
	Orders   int
	Served   int // buyers who have an answer: an order, or that all is sold
	Elapsed  time.Duration
	Done     bool // this is the sale's last report
}

// Strike is what happens to one worker between reading the stock and writing it, while it
// holds the lock.
type Strike string

const (
	NoStrike Strike = ""

	// Stop stops the worker (SIGSTOP) that is about to sell the last piece, past its lease,
	// until another worker has sold that piece, and then continues it. Not on Windows.
	Stop Strike = "stop"

	// Kill kills a worker when half of the stock is sold. Another takes its place. Lua has no
	// lock: there a consumer is killed that has written an order and not acknowledged it.
	Kill Strike = "kill"
)

// withDefaults returns the configuration to run, or what is wrong with c first.
func (c Config) withDefaults() (_ Config, err error) {
	c.Stock = cmp.Or(c.Stock, 100)
	c.Buyers = cmp.Or(c.Buyers, max(1000, c.Stock))
	c.Workers = cmp.Or(c.Workers, 4)
	c.Items = cmp.Or(c.Items, 1)
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	struck := slices.DeleteFunc(Strategies(), func(name string) bool {
		return c.Strike != NoStrike && !slices.Contains(strategies[name].struck, c.Strike)
	})
	redis := slices.ContainsFunc(c.URLs, isRedis)
	if c.Strategies == nil {
		c.Strategies = slices.DeleteFunc(slices.Clone(struck), func(name string) bool { return strategies[name].redis && !redis })
	}
	refuse := func(wrong bool, format string, args ...any) {
		if wrong && err == nil {
			err = fmt.Errorf(format, args...)
		}
	}
	refuse(c.Stock < 1, "a stock of %d: at least 1 is needed", c.Stock)
	refuse(c.Buyers < c.Stock, "%d buyers for a stock of %d: at least as many are needed to sell it all", c.Buyers, c.Stock)
	refuse(c.Workers < 1 || c.Workers > 1000, "%d workers: 1 to 1000 are possible", c.Workers)
	refuse(c.Items < 1 || c.Items > c.Stock, "%d items for a stock of %d: 1 to %[2]d are possible", c.Items, c.Stock)
	if c.Strike != NoStrike {
		refuse((c.Strike != Stop || !canStop) && c.Strike != Kill, "strike %q is not possible on this system", c.Strike)
		refuse(c.Workers < 2, "to %s a worker, at least 2 are needed", c.Strike)
	}
	refuse(len(c.Strategies) == 0, "no strategy is given")
	for i, name := range c.Strategies {
		s, ok := strategies[name]
		refuse(!ok, "unknown strategy %q; there are %s", name, strings.Join(Strategies(), ", "))
		refuse(slices.Contains(c.Strategies[:i], name), "strategy %q is given twice", name)
		refuse(s.redis && !redis, "strategy %q sells in Redis, and none of the URLs is one of Redis, as redis://host:6379 is", name)
		refuse(c.Strike != NoStrike && !slices.Contains(struck, name), "to %s a worker, the strategies are %s", c.Strike, strings.Join(struck, ", "))
	}
	for i, url := range c.URLs {
		u, wrong := driver.ParseURL(url)
		refuse(wrong != nil, "the locks: %w", wrong)
		refuse(wrong == nil && u.Scheme == "mem", "the locks: %s is the memory of one process, and the workers are several", u)
		refuse(slices.Contains(c.URLs[:i], url), "the locks: %s is given twice", u)
	}
	if err != nil {
		return c, err
	}
	s, err := openStore(place{URL: c.Database}) // it asks no server
	if err != nil {
		return c, fmt.Errorf("the database: %w", err)
	}
	return c, s.db.Close()
}

// sales lists what is to be sold how: once for each strategy, but mutex on each
// backend, and striped with each number of segments.
func (c Config) sales(dir string) (all []sale) {
	urls := c.URLs
	if len(urls) == 0 {
		urls = []string{fileURL("sqlite", filepath.Join(dir, "locks.db"))}
	}
	for _, name := range c.Strategies {
		s := sale{Config: c, strategy: strategies[name], name: name, dir: dir}
		places, segments := []string{""}, []int{1}
		switch {
		case name == "mutex":
			places = urls
		case name == "striped":
			places, segments = urls[:1], []int{1, 4, 16}
		case s.strategy.redis:
			places = urls[slices.IndexFunc(urls, isRedis):][:1]
		case s.strategy.locks:
			places = urls[:1]
		}
		for _, s.url = range places {
			for _, s.segments = range segments {
				if s.segments == 1 || s.segments <= c.Stock/c.Items {
					all = append(all, s)
				}
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
	defer func() {
		if err != nil {
			err = fmt.Errorf("flash sale: %w", err)
		}
	}()
	if c, err = c.withDefaults(); err != nil {
		return nil, driver.Invalid(err)
	}
	if os.Getenv(workerVariable) != "" {
		return nil, fmt.Errorf("%s is set: this is a worker process, whose main should have begun with flashsale.WorkerMain()", workerVariable)
	}
	dir, err := os.MkdirTemp(c.Dir, "flash-sale-")
	if err != nil {
		return nil, err
	}
	if c.Dir == "" {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	for _, s := range c.sales(dir) {
		result, err := s.run(ctx)
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), context.Cause(ctx))
		}
		if err != nil {
			return results, fmt.Errorf("%s: %w", s, err)
		}
		results = append(results, result)
	}
	return results, nil
}
