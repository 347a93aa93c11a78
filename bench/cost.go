package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	"github.com/interlock-go/interlock/bench/figures"
	"github.com/interlock-go/interlock/bench/workload"
)

// cost is a command: what a lease, a waiter and a name that nobody uses any more
// take on the server, and in the process that has them.
func cost(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("bench cost", flag.ExitOnError)
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "usage: bench cost [OPTION]… [BACKEND]…\n")
		set.PrintDefaults()
	}
	n := set.Int("n", 10000, "leases of one client, each of a name of its own; and as many waiters of another one, ten for a name")
	asJSON := set.Bool("json", false, "a JSON object for each backend instead of a table")
	_ = set.Parse(args) // it exits
	if *n < perName {
		return fmt.Errorf("-n has to be at least %d", perName)
	}
	for _, name := range set.Args() {
		if !slices.ContainsFunc(backends, func(b workload.Backend) bool { return b.Name == name }) {
			return fmt.Errorf("no backend %q", name)
		}
	}
	r := report{out: os.Stdout, json: *asJSON}
	r.machine()
	r.text("\nBytes for each of %d leases, waiters and names; names of %d bytes\n\n", *n, len(nameOf(0)))
	r.header(append([]string{"backend"}, figures.Costs...)...)
	for _, b := range backends {
		if set.NArg() > 0 && !slices.Contains(set.Args(), b.Name) {
			continue
		}
		bytes, err := costOn(ctx, b, *n)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
		object, cells := map[string]string{"measurement": "cost", "backend": b.Name}, []string{b.Name}
		for i, figure := range figures.Costs {
			object[figure] = fmt.Sprintf("%.0f", bytes[i])
			cells = append(cells, object[figure])
		}
		r.object(object)
		r.line(cells...)
	}
	return nil
}

// perName is how many wait for one name: few enough that each has a ticket of its own.
const perName = 10

// ttlOfCost is long: nothing that is counted may end meanwhile.
const ttlOfCost = 2 * time.Minute

func nameOf(i int) string { return fmt.Sprintf("order/%08d", i) }

// costOn measures one backend: the figures in their order.
func costOn(ctx context.Context, b workload.Backend, n int) (bytes []float64, err error) {
	s, err := b.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var clients [2]*interlock.Client
	for i := range clients {
		if clients[i], err = interlock.Open(ctx, s.URL, interlock.TTL(ttlOfCost)); err != nil {
			return nil, err
		}
		defer clients[i].Close()
	}
	holder, waiter := clients[0], clients[1]
	// What a client needs once is there before anything is counted.
	if err := holder.Mutex("first").Do(ctx, func(context.Context) error { return nil }); err != nil {
		return nil, err
	}

	leases := make([]*interlock.Lease, n)
	patience, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var waiting sync.WaitGroup
	var server, process [4]float64
	for i, prepare := range []func() error{
		func() error { return nil },
		func() error {
			return workload.Together(n, 32, func(i int) (err error) {
				leases[i], err = holder.Mutex(nameOf(i)).Acquire(ctx)
				return err
			})
		},
		func() error {
			for i := range n / perName * perName {
				waiting.Go(func() {
					if l, err := waiter.Mutex(nameOf(i/perName), interlock.StrictOrder()).Acquire(patience); err == nil {
						_ = l.Release()
					}
				})
			}
			return lined(ctx, holder, n/perName)
		},
		func() error {
			giveUp()
			waiting.Wait()
			return workload.Together(n, 32, func(i int) error { return leases[i].Release() })
		},
	} {
		if err := prepare(); err != nil {
			return nil, err
		}
		if server[i], err = s.Kept(ctx); err != nil {
			return nil, err
		}
		process[i] = memory()
	}
	waiters := float64(n / perName * perName)
	return []float64{
		(server[1] - server[0]) / float64(n), (server[2] - server[1]) / waiters, (server[3] - server[0]) / float64(n),
		(process[1] - process[0]) / float64(n), (process[2] - process[1]) / waiters,
	}, nil
}

// lined waits until all waiters are in line.
func lined(ctx context.Context, c *interlock.Client, queues int) error {
	for end, i := time.Now().Add(5*time.Minute), 0; i < queues; {
		q, err := c.Admin().Queue(ctx, nameOf(i))
		switch {
		case err != nil:
			return err
		case len(q.Waiters) == perName:
			i++
		case time.Now().After(end):
			return errors.New("they are not in line after five minutes")
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// memory is what this process uses, stacks included.
func memory() float64 {
	runtime.GC()
	runtime.GC() // what the first one has found to be free is counted until it is swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
