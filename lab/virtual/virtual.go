// Package virtual lets the same work and the same verdicts run in simulated time, over the backend in memory: hours
// pass in a second, and delays, outages and the rates of clocks are drawn from a seed.
package virtual

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/backend/memlock"
	"github.com/interlock-go/interlock/driver"
	"github.com/interlock-go/interlock/internal/bubble"
	"github.com/interlock-go/interlock/lab/check"
	"github.com/interlock-go/interlock/lab/history"
	"github.com/interlock-go/interlock/lab/worker"
)

// Options are what a run is made of.
type Options struct {
	Seed      uint64
	For       time.Duration // simulated
	Workloads []worker.Workload
	Think     time.Duration // between two operations of a goroutine, at most; not 0
	Break     func(driver.Driver) driver.Driver
	Decide    time.Duration // see check.Options
}

const (
	ttl        = 10 * time.Second
	clients    = 4
	goroutines = 3
	patience   = time.Minute
)

// Run lets clients work in a bubble, and judges what they did.
func Run(t *testing.T, o Options) *check.Result {
	var events []history.Event
	bubble.Run(t, func(t *testing.T) { events = simulate(t, o) })
	return check.Check(events, check.Options{TTL: ttl, Patience: patience, Decide: o.Decide})
}

// Main runs f as a test, which bubbles need, in a program that is none, and does not return.
func Main(f func(*testing.T)) {
	os.Args = append(os.Args[:1], "-test.v=false")
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "virtual", F: f}}, nil, nil)
}

// A client is what a process would be: it can be killed, and another one takes its place.
type client struct {
	*interlock.Client
	mem    *memlock.Driver
	driver driver.Driver // as the client has it
	net    *network
	number int
	dead   atomic.Bool
	kill   func() // also ends what it does in this process
}

func simulate(t *testing.T, o Options) []history.Event {
	began := time.Now()
	base := memlock.New().Now()
	now := func() int64 { return int64(time.Since(began)) + 1 }
	log := history.NewLog()
	counters := &worker.Counters{Log: log, Now: now}
	world := memlock.NewWorld()
	stopped, stop := context.WithCancel(context.Background())
	defer stop()
	var over atomic.Bool
	all := make([]*client, clients)
	var working sync.WaitGroup
	numbers := 0
	start := func(i int) error {
		numbers++
		rnd := rand.New(rand.NewPCG(o.Seed, uint64(numbers)))
		c := &client{mem: world.Driver(), number: numbers}
		c.net = &network{Driver: c.mem, rate: 0.97 + 0.06*rnd.Float64(), base: base, rnd: rnd}
		c.driver = c.net
		if o.Break != nil {
			c.driver = o.Break(c.net)
		}
		opened, err := interlock.New(stopped, c.driver, interlock.TTL(ttl), interlock.Owner(fmt.Sprint(numbers)))
		if err != nil {
			return err
		}
		c.Client = opened
		ctx, end := context.WithCancel(stopped)
		c.kill = func() {
			c.dead.Store(true)
			_ = c.driver.Close()
			end()
			go opened.Close()
		}
		all[i] = c
		for g := range goroutines {
			e := &worker.Env{
				Client: opened, Resource: counters, Log: log,
				Rand: rand.New(rand.NewPCG(o.Seed, uint64(1000+numbers*goroutines+g))),
				TTL:  ttl, Epoch: 30 * o.Think, Think: o.Think, Long: 20, Worker: numbers, G: g + 1, Now: now,
				Over: func() bool { return over.Load() || c.dead.Load() }, Dead: &c.dead, Stopped: ctx,
			}
			working.Go(func() { e.Work(o.Workloads) })
		}
		return nil
	}
	for i := range clients {
		if err := start(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := disturb(o, all, log, now, start); err != nil {
		t.Fatal(err)
	}
	over.Store(true)
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience): // a waiter that is still there is left behind
	}
	events := log.Events()
	stop()
	for _, c := range all {
		c.mem.Faults().Clear()
		go c.Client.Close()
	}
	time.Sleep(15 * time.Minute) // all that goes on by itself ends
	return events
}

// disturb plays faults until the time is over.
func disturb(o Options, all []*client, log *history.Log, now func() int64, start func(i int) error) error {
	rnd := rand.New(rand.NewPCG(o.Seed, 99))
	began := time.Now()
	for n := 1; time.Since(began) < o.For; n++ {
		time.Sleep(time.Duration(rnd.Int64N(int64(2 * ttl))))
		if rnd.IntN(10) == 0 {
			time.Sleep(3 * ttl)
		}
		i := rnd.IntN(clients)
		c := all[i]
		f := faults[rnd.IntN(len(faults))]
		e := history.Event{T: now(), Kind: history.Fault, Op: f.name, Object: fmt.Sprint(c.number), N: n,
			Loses: f.name == "expire"}
		log.Write(e)
		if f.play != nil {
			f.play(c, rnd)
		} else {
			log.Write(history.Event{T: e.T, Kind: history.Killed, Worker: c.number})
			c.kill()
			if err := start(i); err != nil {
				return err
			}
		}
		e.T, e.Kind = now(), history.Heal
		log.Write(e)
	}
	time.Sleep(2 * ttl)
	return nil
}

// Faults of a client in simulated time.
var faults = []struct {
	name string
	play func(c *client, r *rand.Rand)
}{
	{"kill", nil},
	{"cut", func(c *client, r *rand.Rand) {
		c.mem.Faults().Cut()
		dwell(r)
		c.mem.Faults().Heal()
	}},
	{"silent", func(c *client, r *rand.Rand) { hang(c, r, c.mem.Faults().Before("", 0)) }},
	{"no answers", func(c *client, r *rand.Rand) { hang(c, r, c.mem.Faults().After("", 0)) }},
	{"lost", func(c *client, r *rand.Rand) {
		for range 1 + r.IntN(5) {
			method := []string{"", "Join", "Leave", "Renew", "Await", "Swap"}[r.IntN(6)]
			at := c.mem.Faults().After
			if r.IntN(2) == 0 {
				at = c.mem.Faults().Before
			}
			at(method, 1+r.IntN(3)).Fail()
		}
		dwell(r)
		c.mem.Faults().Clear()
	}},
	{"expire", func(c *client, _ *rand.Rand) { c.mem.Faults().Expire() }},
	{"slow", func(c *client, r *rand.Rand) {
		c.net.set(time.Duration(r.Int64N(int64(ttl / 15))))
		dwell(r)
		c.net.set(0)
	}},
}

// hang has all calls hang at a point. In the end they arrive, or are lost.
func hang(c *client, r *rand.Rand, at memlock.Point) {
	h := at.Hang()
	dwell(r)
	c.mem.Faults().Clear()
	if r.IntN(2) == 0 {
		h.Deliver()
	} else {
		h.Lose()
	}
}

func dwell(r *rand.Rand) { time.Sleep(time.Duration(r.Float64() * r.Float64() * 2.5 * float64(ttl))) }
