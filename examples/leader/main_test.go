package main

import (
	"context"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/errtest"
)

func TestTheNextOneTakesOverWhenTheLeaderStops(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "sqlite:locks.db"
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
	start := func(name string) (stop context.CancelFunc, steps chan int, ended chan error) {
		ctx, stop := context.WithCancel(t.Context())
		steps, ended = make(chan int, 1000), make(chan error, 1)
		go func() { ended <- serve(ctx, url, name, func(step int) { steps <- step }) }()
		return stop, steps, ended
	}
	leads("")
	stopFirst, first, firstEnded := start("first")
	<-first // it leads
	leads("first")
	stopSecond, second, secondEnded := start("second")
	for range 3 {
		<-first
	}
	if len(second) > 0 {
		t.Error("two lead at once")
	}
	stopFirst()
	errtest.None(t, <-firstEnded)
	<-second // it leads
	leads("second")
	stopSecond()
	errtest.None(t, <-secondEnded)
	leads("")
	unwatch()
	errtest.None(t, <-watched)
}
