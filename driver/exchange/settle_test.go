package exchange_test

import (
	"context"
	"testing"

	"github.com/interlock-go/interlock/driver/exchange/exchangetest"
)

// Promise: a queue that is to be settled while it is being settled is settled once more:
// what happened meanwhile may not have been seen.
func TestSettlingBesideSettling(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	store := exchangetest.NewWorld().Store()
	store.Script.Settle = func(context.Context, string) (bool, error) {
		begun <- struct{}{}
		<-end
		return false, nil
	}
	d := store.Driver()
	t.Cleanup(func() { _ = d.Close() })
	d.Settle("q")
	<-begun
	for range 3 {
		d.Settle("q")
	}
	end <- struct{}{}
	<-begun // once more
	end <- struct{}{}
	if !d.Settled("q") { // and not again
		t.Error("it is still being settled")
	}
}
