package main

import (
	"context"
	"testing"
	"time"
)

func TestTheNextOneTakesOverWhenTheLeaderStops(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "sqlite:locks.db"
	type copy struct {
		stop  context.CancelFunc
		steps chan int
		ended chan error
	}
	watching, unwatch := context.WithCancel(t.Context())
	leaders, watched := make(chan string, 1000), make(chan error, 1)
	go func() { watched <- observe(watching, url, func(leader string) { leaders <- leader }) }()
	leads := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-leaders:
				if got == want {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("the observer has not seen %q lead", want)
			}
		}
	}
	start := func(name string) copy {
		ctx, stop := context.WithCancel(t.Context())
		c := copy{stop, make(chan int, 1000), make(chan error, 1)}
		go func() { c.ended <- serve(ctx, url, name, func(step int) { c.steps <- step }) }()
		return c
	}
	leads("")
	first := start("first")
	<-first.steps // it leads
	leads("first")
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
	leads("second")
	second.stop()
	if err := <-second.ended; err != nil {
		t.Error("the second:", err)
	}
	leads("")
	unwatch()
	if err := <-watched; err != nil {
		t.Error("the observer:", err)
	}
}
