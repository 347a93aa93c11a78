package flashsale

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/internal/errtest"
)

// The test binary is the worker too, so it can have strategies of its own.
func TestMain(m *testing.M) {
	strategies["forgetful"] = strategy{sell: confirmsWithoutAnOrder}
	strategies["twice"] = strategy{sell: placesTwoOrders, loose: true}
	strategies["silent"] = strategy{sell: neverAnswers}
	strategies["dying"] = strategy{sell: diesAtBuyer5}
	strategies["failing"] = strategy{sell: failsAtBuyer5}
	// The race detector makes every process wait for a second at its exit.
	if err := os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	WorkerMain()
	// After a connection that failed, the client of Redis sleeps for up to a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

func confirmsWithoutAnOrder(ctx context.Context, s *shop, o order) error {
	if o.buyer < 3 {
		return nil
	}
	return s.buy(ctx, o, unchecked)
}

func placesTwoOrders(ctx context.Context, s *shop, o order) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		return errors.Join(s.placeOrder(ctx, tx, o), s.placeOrder(ctx, tx, o))
	})
}

func neverAnswers(_ context.Context, _ *shop, o order) error {
	if o.buyer == 0 {
		return nil
	}
	select {}
}

func diesAtBuyer5(_ context.Context, _ *shop, o order) error {
	if o.buyer == 5 {
		fmt.Fprintln(os.Stderr, "last words")
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
	}
	select {}
}

func failsAtBuyer5(_ context.Context, _ *shop, o order) error {
	if o.buyer == 5 {
		return errors.New("the till is empty")
	}
	return errSoldOut
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

// sold is the results of a sale in which every strategy that promises it sold exactly the stock.
func sold(t *testing.T, c Config) []Result {
	t.Helper()
	tempDir(t)
	results := errtest.Must(Run(t.Context(), c))(t)
	errtest.Is(t, Check(results), nil)
	return results
}

// labels are those of the results.
func labels(results []Result) (all []string) {
	for _, r := range results {
		all = append(all, r.Label)
	}
	return all
}

// Promise: none and, among several workers, local sell more than there is; every other
// strategy sells exactly the stock, one piece to a buyer, with each number of segments.
func TestOnlyNoneAndLocalOversell(t *testing.T) {
	var reports []Progress
	results := sold(t, Config{Stock: 60, Buyers: 200, Workers: 3, Progress: func(p Progress) { reports = append(reports, p) }})
	for _, r := range results {
		switch {
		case strategies[r.Strategy].wrong:
			if r.Oversold == 0 || r.Orders != r.Stock+r.Oversold || r.Left <= r.Stock-r.Orders {
				t.Errorf("%s did not oversell by lost updates: %+v", r.Label, r)
			}
		case !r.Exact():
			t.Errorf("not exact: %+v", r)
		}
		if (r.SecondPieces > 0) != strategies[r.Strategy].loose {
			t.Errorf("%s: %d second pieces", r.Label, r.SecondPieces)
		}
		if (r.URL == "") == strategies[r.Strategy].locks {
			t.Errorf("%s: its locks are at %q", r.Label, r.URL)
		}
		if r.Seconds <= 0 || r.OrdersPerSecond <= 0 || r.Between+r.Within != r.Orders-1 || sum(r.PerWorker) != r.Orders || len(r.times) != r.Orders {
			t.Errorf("figures that do not fit: %+v", r)
		}
	}
	want := []string{"none", "local", "conditional", "pessimistic", "optimistic", "mutex", "striped, 1", "striped, 4", "striped, 16", "fenced"}
	if got := labels(results); !slices.Equal(got, want) {
		t.Errorf("results of %v, want %v", got, want)
	}
	last := slices.DeleteFunc(reports, func(p Progress) bool { return !p.Done })
	if len(last) != len(want) {
		t.Errorf("%d last reports, want one of each sale", len(last))
	}
	for i, p := range last {
		if p.Served != 200 || p.Strategy != want[i] || p.Number != i+1 || p.Of != len(want) {
			t.Errorf("last report of a sale: %+v", p)
		}
	}
}

// Promise: a lock of the process is exact if there is one process.
func TestALockOfTheProcessIsExactWithOneWorker(t *testing.T) {
	if r := sold(t, Config{Stock: 20, Buyers: 60, Workers: 1, Strategies: []string{"local"}})[0]; !r.Exact() {
		t.Errorf("got %+v, want it exact", r)
	}
}

// Promise: buyers are served in turn, so that each worker sells about as much as the others.
func TestTheWorkersTakeTurns(t *testing.T) {
	if r := sold(t, Config{Workers: 4, Strategies: []string{"mutex"}})[0]; slices.Min(r.PerWorker) < 5 || r.Between < 10 {
		t.Errorf("4 workers sold %v of 100 pieces, %d times after another and %d times after itself; want them to take turns", r.PerWorker, r.Between, r.Within)
	}
}

// Promise: where a segment of the stock runs dry, its buyers get a piece from another.
func TestBuyersOfADrySegmentGoOnToOthers(t *testing.T) {
	if r := sold(t, Config{Stock: 40, Buyers: 40, Workers: 2, Strategies: []string{"striped"}}); len(r) != 3 {
		t.Errorf("%d results, want those of 1, 4 and 16 segments", len(r))
	}
}

// Promise: several items that all want have locks, and stocks, of their own.
func TestSeveralItemsAreEachSoldExactly(t *testing.T) {
	for _, r := range sold(t, Config{Stock: 50, Buyers: 200, Workers: 3, Items: 3, Strategies: []string{"none", "conditional", "mutex", "striped"}}) {
		if r.Items != 3 || r.Exact() == (r.Strategy == "none") {
			t.Errorf("got %+v", r)
		}
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	tempDir(t)
	results := errtest.Must(Run(t.Context(), Config{Stock: 10, Buyers: 10, Workers: 2, Strategies: []string{"none", "forgetful", "twice", "optimistic"}}))(t)
	if r := results[1]; r.Lost != 3 {
		t.Errorf("3 orders were confirmed and not placed; lost is %d", r.Lost)
	}
	if r := results[2]; r.SecondPieces < 10 || r.Duplicates < 10 || r.Oversold < 10 {
		t.Errorf("10 orders were placed twice, or more often; got %+v", r)
	}
	err := Check(results)
	errtest.Says(t, err, "forgetful", "twice")
	if err != nil && (strings.Contains(err.Error(), "none") || strings.Contains(err.Error(), "optimistic")) {
		t.Errorf("Check names one that may be wrong, or was right: %v", err)
	}
}

func TestTheEndOfTheContextEndsTheWorkers(t *testing.T) {
	tempDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results, err := Run(ctx, Config{Stock: 5, Buyers: 20, Workers: 4, Strategies: []string{"optimistic", "silent"}, Progress: func(p Progress) {
		if p.Strategy == "silent" && p.Served > 0 {
			cancel()
		}
	}})
	errtest.Is(t, err, context.Canceled)
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
			errtest.Says(t, err, want...)
		})
	}
}

func TestAGivenFolderKeepsTheDatabases(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second run does not touch the first one's
		sold(t, Config{Dir: dir, Stock: 2, Buyers: 4, Workers: 2, Strategies: []string{"optimistic"}})
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*", "optimistic-1.db")); err != nil || len(files) != 2 {
		t.Errorf("got %v, %v; want two databases", files, err)
	}
}

func TestAWrongConfigurationIsRefusedAtOnce(t *testing.T) {
	tempDir(t)
	for want, c := range map[string]Config{
		"stock":                            {Stock: -1},
		"buyers":                           {Stock: 10, Buyers: 9},
		"workers":                          {Workers: 1001},
		"no strategy":                      {Strategies: []string{}},
		"unknown strategy":                 {Strategies: []string{"luck"}},
		"given twice":                      {Strategies: []string{"none", "mutex", "none"}},
		"memory of one":                    {URLs: []string{"mem:shop"}},
		"not a URL":                        {URLs: []string{"shop"}},
		"no such":                          {Dir: filepath.Join(t.TempDir(), "missing")},
		"items":                            {Stock: 5, Items: 6},
		"twice":                            {URLs: []string{"sqlite:a", "sqlite:a"}},
		"not possible":                     {Strike: "tickle"},
		"at least 2":                       {Strike: Kill, Workers: 1},
		"mutex, fenced, lua":               {Strike: Kill, Strategies: []string{"optimistic"}},
		"are mutex, fenced":                {Strike: Stop, Strategies: []string{"lua"}, URLs: []string{"redis://localhost"}},
		"none of the URLs is one of Redis": {Strategies: []string{"lua"}, URLs: []string{"zk://localhost"}},
		"unknown scheme":                   {URLs: []string{"teapot:"}, Strategies: []string{"mutex"}},
	} {
		_, err := Run(t.Context(), c)
		errtest.Says(t, err, want)
	}
}

// A program that forgets WorkerMain must not start itself over and over.
func TestWorkersDoNotStartWorkers(t *testing.T) {
	t.Setenv(workerVariable, "1")
	_, err := Run(t.Context(), Config{})
	errtest.Says(t, err, "WorkerMain")
}

func sum(all []int) (n int) {
	for _, x := range all {
		n += x
	}
	return n
}

func TestTheStockIsDividedIntoEqualParts(t *testing.T) {
	for _, c := range []struct{ stock, n int }{{100, 8}, {8, 8}, {9, 8}, {15, 8}, {1, 1}, {7, 3}} {
		parts := divide(c.stock, c.n)
		if len(parts) != c.n || sum(parts) != c.stock || slices.Max(parts)-slices.Min(parts) > 1 {
			t.Errorf("%+v: got %v", c, parts)
		}
	}
	if got := cut(17, 4); !slices.Equal(got, []int{1, 6, 5, 5}) {
		t.Errorf("17 pieces in 4 segments: got %v, want a first one that runs dry at once", got)
	}
}
