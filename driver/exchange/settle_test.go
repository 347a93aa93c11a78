package exchange

import (
	"context"
	"testing"
)

// settler is a store of which a test sees, and ends, every settling.
type settler struct {
	staged
	begun, end chan struct{}
}

func (s settler) Settle(context.Context, string) (bool, error) {
	s.begun <- struct{}{}
	<-s.end
	return false, nil
}

// Promise: a queue that is to be settled while it is being settled is settled once more:
// what happened meanwhile may not have been seen.
func TestSettlingBesideSettling(t *testing.T) {
	store := settler{begun: make(chan struct{}), end: make(chan struct{})}
	d := New(store, NewMailbox())
	t.Cleanup(func() { _ = d.Close() })
	d.settle("q")
	<-store.begun
	for range 3 {
		d.settle("q")
	}
	store.end <- struct{}{}
	<-store.begun // once more
	store.end <- struct{}{}
	d.tasks.Wait() // and not again
	if !d.settling.Begin("q") {
		t.Error("it is still being settled")
	}
}
