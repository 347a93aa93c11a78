package flashsale

import (
	"testing"

	"github.com/interlock-go/interlock/internal/redistest"
	"github.com/interlock-go/interlock/internal/zktest"
)

func TestEightWorkersSellExactlyTheStockWithLocksOnRedis(t *testing.T) {
	sellsExactly(t, redistest.Start(t).URL())
}

func TestEightWorkersSellExactlyTheStockWithLocksOnZooKeeper(t *testing.T) {
	sellsExactly(t, "zk://"+zktest.Start(t).Addr)
}

func sellsExactly(t *testing.T, url string) {
	results, err := Run(t.Context(), Config{
		Stock: 40, Buyers: 200, Workers: 8, URL: url,
		Strategies: []string{"none", "mutex", "fenced", "striped"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(results); err != nil {
		t.Error(err)
	}
	for _, r := range results {
		if r.Strategy != "none" && !r.Exact() {
			t.Errorf("not exact: %+v", r)
		}
	}
	if results[0].Oversold == 0 {
		t.Errorf("without a lock nothing was oversold, so this shows nothing: %+v", results[0])
	}
}
