package main

import (
	"context"
	"testing"
)

func TestTheNextOneTakesOverWhenTheLeaderStops(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "sqlite:locks.db"
	type copy struct {
		stop  context.CancelFunc
		steps chan int
		ended chan error
	}
	start := func(name string) copy {
		ctx, stop := context.WithCancel(t.Context())
		c := copy{stop, make(chan int, 1000), make(chan error, 1)}
		go func() { c.ended <- serve(ctx, url, name, func(step int) { c.steps <- step }) }()
		return c
	}
	first := start("first")
	<-first.steps // it leads
	second := start("second")
	for range 3 {
		<-first.steps
	}
	if len(second.steps) > 0 {
		t.Error("two lead at once")
	}
	first.stop()
	if err := <-first.ended; err != nil {
		t.Error("the first:", err)
	}
	<-second.steps // it leads
	second.stop()
	if err := <-second.ended; err != nil {
		t.Error("the second:", err)
	}
}
