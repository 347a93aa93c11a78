package zookeeper

import (
	"slices"
	"testing"
	"time"

	"github.com/interlock-go/interlock/bench/workload"
	"github.com/interlock-go/interlock/internal/zktest"
)

func startBackend(t *testing.T) (workload.Backend, workload.Server) {
	t.Helper()
	b := Backend()
	s, err := b.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, s
}

// W9 starts the program again, which a test is not.
func TestAllDoNothingWrong(t *testing.T) {
	b, s := startBackend(t)
	e := workload.Env{
		Backend: b.Name, Server: s, Time: 100 * time.Millisecond, Limit: 30 * time.Second,
		Waiters: 50, Clients: 20, Leases: 100,
	}
	for _, w := range workload.All() {
		for _, c := range b.Contenders(s.URL()) {
			if w.Name == "W9" || !slices.Contains(c.Takes, w.Name) {
				continue
			}
			t.Run(w.Name+"/"+c.Name, func(t *testing.T) {
				if err := s.Clear(t.Context()); err != nil {
					t.Fatal(err)
				}
				r := w.Run(t.Context(), c, e)
				if r.Bad() || len(r.Figures) == 0 {
					t.Errorf("%+v", r)
				}
				if w.Name == "W5" && (r.Figures["drained"] != 50 || r.Figures[bytesSent] <= 0) {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

func TestClearLeavesNothing(t *testing.T) {
	_, s := startBackend(t)
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
	_, s := startBackend(t)
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
