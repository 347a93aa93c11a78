package flashsale

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is the worker too, so it can have strategies of its own.
func TestMain(m *testing.M) {
	strategies["forgetful"] = confirmsWithoutAnOrder
	strategies["twice"] = placesTwoOrders
	strategies["silent"] = neverAnswers
	strategies["dying"] = diesAtBuyer(5)
	strategies["failing"] = failsAtBuyer(5)
	// The race detector makes every process wait for a second at its exit.
	if err := os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	WorkerMain()
	goleak.VerifyTestMain(m)
}

func confirmsWithoutAnOrder(s *shop) (sell, error) {
	return func(ctx context.Context, buyer int) (bool, error) {
		if buyer < 3 {
			return true, nil
		}
		return s.buy(ctx, order{buyer: buyer, worker: s.worker}, nil)
	}, nil
}

func placesTwoOrders(s *shop) (sell, error) {
	return func(ctx context.Context, buyer int) (bool, error) {
		o := order{buyer: buyer, worker: s.worker}
		err := s.transact(ctx, func(tx *sql.Tx) error {
			return errors.Join(s.place(ctx, tx, o), s.place(ctx, tx, o))
		})
		return err == nil, err
	}, nil
}

func neverAnswers(*shop) (sell, error) {
	return func(ctx context.Context, buyer int) (bool, error) {
		if buyer == 0 {
			return true, nil
		}
		<-ctx.Done()
		return false, ctx.Err()
	}, nil
}

func diesAtBuyer(n int) func(*shop) (sell, error) {
	return func(*shop) (sell, error) {
		return func(ctx context.Context, buyer int) (bool, error) {
			if buyer == n {
				fmt.Fprintln(os.Stderr, "last words")
				self, err := os.FindProcess(os.Getpid())
				if err == nil {
					err = self.Kill()
				}
				if err != nil {
					return false, err
				}
			}
			<-ctx.Done()
			return false, ctx.Err()
		}, nil
	}
}

func failsAtBuyer(n int) func(*shop) (sell, error) {
	return func(*shop) (sell, error) {
		return func(ctx context.Context, buyer int) (bool, error) {
			if buyer == n {
				return false, errors.New("the till is empty")
			}
			return false, nil
		}, nil
	}
}

// tempDir becomes the folder of temporary files, and must be empty at the end.
func tempDir(t *testing.T) {
	dir := t.TempDir()
	for _, variable := range []string{"TMPDIR", "TMP", "TEMP"} {
		t.Setenv(variable, dir)
	}
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("temporary files stayed behind: %v, %v", left, err)
		}
	})
}

func TestEveryStrategyButNoneSellsExactlyTheStock(t *testing.T) {
	tempDir(t)
	var reports []Progress
	c := Config{Stock: 40, Buyers: 200, Workers: 3, Progress: func(p Progress) { reports = append(reports, p) }}
	results, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(results); err != nil {
		t.Error(err)
	}
	var names []string
	for _, r := range results {
		names = append(names, r.Strategy)
		if r.Strategy == "none" {
			if r.Oversold == 0 || r.Orders != r.Stock+r.Oversold || r.Left <= r.Stock-r.Orders {
				t.Errorf("none did not oversell by lost updates: %+v", r)
			}
		} else if !r.Exact() || r.Oversold != 0 {
			t.Errorf("not exact: %+v", r)
		}
		if r.Seconds <= 0 || r.OrdersPerSecond <= 0 || r.Between+r.Within != r.Orders-1 {
			t.Errorf("figures that do not fit: %+v", r)
		}
	}
	if !reflect.DeepEqual(names, Strategies()) {
		t.Errorf("results of %v, want %v", names, Strategies())
	}
	finals := 0
	for _, p := range reports {
		if p.Done {
			finals++
			if p.Served != 200 || p.Strategy != Strategies()[finals-1] || p.Number != finals || p.Of != len(names) {
				t.Errorf("last report of a strategy: %+v", p)
			}
		}
	}
	if finals != len(names) {
		t.Errorf("%d last reports, want one of each strategy", finals)
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	tempDir(t)
	results, err := Run(t.Context(), Config{Stock: 10, Buyers: 10, Workers: 2, Strategies: []string{"none", "forgetful", "twice", "optimistic"}})
	if err != nil {
		t.Fatal(err)
	}
	if r := results[1]; r.Lost != 3 {
		t.Errorf("3 orders were confirmed and not placed; lost is %d", r.Lost)
	}
	if r := results[2]; r.Duplicates != 10 || r.Oversold != 10 {
		t.Errorf("10 orders were placed twice; duplicates is %d, oversold %d", r.Duplicates, r.Oversold)
	}
	err = Check(results)
	if err == nil || !strings.Contains(err.Error(), "forgetful") || !strings.Contains(err.Error(), "twice") {
		t.Errorf("Check: got %v, want both to be named", err)
	}
	if err != nil && (strings.Contains(err.Error(), "none") || strings.Contains(err.Error(), "optimistic")) {
		t.Errorf("Check names one that may be wrong, or was right: %v", err)
	}
}

func TestTheEndOfTheContextEndsTheWorkers(t *testing.T) {
	tempDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results, err := Run(ctx, Config{Stock: 5, Buyers: 20, Workers: 2, Strategies: []string{"optimistic", "silent"}, Progress: func(p Progress) {
		if p.Strategy == "silent" && p.Served > 0 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if len(results) != 1 || !results[0].Exact() {
		t.Errorf("the strategy that was complete: got %+v", results)
	}
}

func TestAWorkersEndIsReported(t *testing.T) {
	for strategy, want := range map[string][]string{
		"dying":   {"dying", "worker 2", "last words"},
		"failing": {"failing", "worker 2", "buyer 5", "the till is empty"},
	} {
		t.Run(strategy, func(t *testing.T) {
			tempDir(t)
			_, err := Run(t.Context(), Config{Stock: 5, Buyers: 20, Workers: 4, Strategies: []string{strategy}})
			for _, w := range want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("got %v, want it to say %q", err, w)
				}
			}
		})
	}
}

func TestAGivenFolderKeepsTheDatabases(t *testing.T) {
	tempDir(t)
	dir := t.TempDir()
	for range 2 { // the second run does not touch the first one's
		if _, err := Run(t.Context(), Config{Dir: dir, Stock: 2, Buyers: 4, Workers: 2, Strategies: []string{"optimistic"}}); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*", "optimistic.db")); err != nil || len(files) != 2 {
		t.Errorf("got %v, %v; want two databases", files, err)
	}
}

func TestAWrongConfigurationIsRefusedAtOnce(t *testing.T) {
	tempDir(t)
	for want, c := range map[string]Config{
		"stock":            {Stock: -1},
		"buyers":           {Stock: 10, Buyers: 9},
		"workers":          {Workers: 1001},
		"work":             {Work: -time.Second},
		"no strategy":      {Strategies: []string{}},
		"unknown strategy": {Strategies: []string{"luck"}},
		"given twice":      {Strategies: []string{"none", "mutex", "none"}},
		"memory of one":    {URL: "mem:shop"},
		"not a URL":        {URL: "shop"},
		"no such":          {Dir: filepath.Join(t.TempDir(), "missing")},
		"unknown scheme":   {URL: "teapot:", Strategies: []string{"mutex"}},
	} {
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

// A program that forgets WorkerMain must not start itself over and over.
func TestWorkersDoNotStartWorkers(t *testing.T) {
	t.Setenv(workerVariable, "1")
	if _, err := Run(t.Context(), Config{}); err == nil || !strings.Contains(err.Error(), "WorkerMain") {
		t.Errorf("got %v, want it to say what main must do", err)
	}
}

func TestTheStockIsCutIntoEqualSegments(t *testing.T) {
	for _, c := range []struct{ stock, segments int }{{100, 8}, {8, 8}, {9, 8}, {15, 8}, {1, 1}, {7, 3}} {
		db, err := openStore(t.Context(), place{File: filepath.Join(t.TempDir(), "shop.db")}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.fill(t.Context(), c.stock, c.segments); err != nil {
			t.Fatal(err)
		}
		var n, sum, least, most int
		err = db.db.QueryRow("SELECT count(*), sum(stock), min(stock), max(stock) FROM items").Scan(&n, &sum, &least, &most)
		if err != nil || n != c.segments || sum != c.stock || most-least > 1 {
			t.Errorf("%+v: got %d segments of %d to %d, %d in all, %v", c, n, least, most, sum, err)
		}
		if err := db.close(); err != nil {
			t.Error(err)
		}
	}
}
