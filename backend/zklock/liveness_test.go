package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/interlock-go/interlock/internal/zktest"
)

// ends runs a call that cannot succeed, and whose context ends soon.
func ends(t *testing.T, what string, call func(context.Context) error) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := call(ctx)
	if took := time.Since(began); took > 20*time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s with a context of 200 ms took %v: %v", what, took, err)
	}
}

// Promise: a Join ends with its context while another one reads what is added to tokens.
func TestJoinEndsWhileAnotherReadsRaisedTokens(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, zktest.Tick(2*time.Second))
	via := zktest.NewProxy(t, s.Addr)
	d := opened(t, via.Addr)
	b := session(t, d, 40*time.Second)
	for i := range 5 {
		warm(t, b, fmt.Sprint("short", i))
		warm(t, b, fmt.Sprint("long", i))
	}
	hold := via.HoldRequests(func(f zktest.Frame) bool { // all Joins have been sent by then
		return f.Op == zktest.OpGetData && strings.HasSuffix(f.Path, "/floors")
	})
	noError(t, opened(t, s.Addr).Raise(limited(t), "other", 1<<40))
	short, long := make(chan struct{}), make(chan struct{})
	patient, cancel := context.WithCancel(t.Context())
	for i := range 5 {
		go func() {
			_, _ = b.Join(patient, aMutex(fmt.Sprint("long", i)))
			long <- struct{}{}
		}()
		go func() {
			r := aMutex(fmt.Sprint("short", i))
			ends(t, "Join", func(ctx context.Context) error { _, err := b.Join(ctx, r); return err })
			short <- struct{}{}
		}()
	}
	<-hold.Held()
	for range 5 {
		<-short
	}
	cancel()
	for range 5 {
		<-long
	}
	hold.Release()
}
