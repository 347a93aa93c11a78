package zookeeper

import (
	"testing"
	"time"

	"github.com/interlock-go/interlock/bench/trial"
	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/zktest"
)

func TestAllDoNothingWrong(t *testing.T) {
	b := Backend()
	trial.All(t, b, trial.Start(t, b))
}

func TestClearLeavesNothing(t *testing.T) {
	s := trial.Start(t, Backend())
	conn, err := connect(t.Context(), s.URL(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := makeAll(conn, "/a/b/c"); err != nil {
		t.Fatal(err)
	}
	if err := s.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := below(conn, "/"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// A proxy sees every byte, which takes time: it is to show that the kernel counts
// the same.
func TestBytesAreThoseOnTheWire(t *testing.T) {
	s := trial.Start(t, Backend())
	z := s.(closing)
	proxy := zktest.NewProxy(t, z.Addr)
	before, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := openRecipe("zk://"+proxy.Addr)(t.Context(), workload.Options{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 100
	for range n {
		h, err := c.Lock("a")(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent, received := proxy.ToClients(), proxy.ToServer()
	if got := after.Sent - before.Sent; got != float64(sent.Bytes) {
		t.Errorf("%v bytes sent, %d seen", got, sent.Bytes)
	}
	if got := after.Received - before.Received; got != float64(received.Bytes) {
		t.Errorf("%v bytes received, %d seen", got, received.Bytes)
	}
	if got := after.Commands - before.Commands; got != float64(received.Frames) {
		t.Errorf("%v packets received, %d seen", got, received.Frames)
	}
	if after.CPU <= before.CPU {
		t.Errorf("CPU: %v after %v", after.CPU, before.CPU)
	}
}
