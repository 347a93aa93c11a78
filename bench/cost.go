package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock"
	_ "github.com/interlock-go/interlock/backend/sqlitelock"
	"github.com/interlock-go/interlock/bench/kernel"
	"github.com/interlock-go/interlock/bench/workload"
)

// costs is the command cost: what a lease, a waiter and a name that nobody uses any more
// take on the server, and in the process that has them.
func costs(ctx context.Context, args []string) error {
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
	all := append(backends(), workload.Backend{Name: "sqlite", Start: startSQLite})
	for _, name := range set.Args() {
		if !slices.ContainsFunc(all, func(b workload.Backend) bool { return b.Name == name }) {
			return fmt.Errorf("no backend %q", name)
		}
	}
	r := newReport(os.Stdout, *asJSON)
	r.machine()
	r.title("cost", fmt.Sprintf("bytes for each of %d leases, waiters and names; names of %d bytes", *n, len(nameOf(0))))
	r.header("backend", "lease, server", "waiter, server", "idle name, server", "lease, process", "waiter, process")
	for _, b := range all {
		if set.NArg() > 0 && !slices.Contains(set.Args(), b.Name) {
			continue
		}
		c, err := costOn(ctx, b, *n)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
		line := []string{b.Name}
		for _, bytes := range c {
			line = append(line, fmt.Sprintf("%.0f", bytes))
		}
		r.line(line...)
	}
	return nil
}

// perName is how many wait for one name: few enough that each has a ticket of its own.
const perName = 10

func nameOf(i int) string { return fmt.Sprintf("order/%08d", i) }

// costOn measures one backend: for each lease, waiter and idle name the bytes on the server,
// and for each lease and waiter those in this process.
func costOn(ctx context.Context, b workload.Backend, n int) (c [5]float64, err error) {
	server, err := b.Start(ctx)
	if err != nil {
		return c, err
	}
	defer server.Close()
	keeping, ok := server.(workload.Keeping)
	if !ok {
		return c, errors.New("what it keeps is not known")
	}
	var readings [4]struct{ server, process float64 }
	read := func(i int) (err error) {
		if readings[i].server, err = keeping.Kept(ctx); err == nil {
			readings[i].process = process()
		}
		return err
	}
	holder, err := interlock.Open(ctx, server.URL(), interlock.TTL(ttlOfCost))
	if err != nil {
		return c, err
	}
	defer holder.Close()
	waiter, err := interlock.Open(ctx, server.URL(), interlock.TTL(ttlOfCost))
	if err != nil {
		return c, err
	}
	defer waiter.Close()
	// What a client needs once is there before anything is counted.
	if err := holder.Mutex("first").Do(ctx, func(context.Context) error { return nil }); err != nil {
		return c, err
	}
	if err := read(0); err != nil {
		return c, err
	}

	leases := make([]*interlock.Lease, n)
	if err := each(n, func(i int) (err error) {
		leases[i], err = holder.Mutex(nameOf(i)).Acquire(ctx)
		return err
	}); err != nil {
		return c, err
	}
	if err := read(1); err != nil {
		return c, err
	}

	patience, end := context.WithCancel(ctx)
	defer end()
	var waiting sync.WaitGroup
	queues := n / perName
	waiters := queues * perName
	for i := range waiters {
		waiting.Go(func() {
			if l, err := waiter.Mutex(nameOf(i%queues), interlock.StrictOrder()).Acquire(patience); err == nil {
				_ = l.Release()
			}
		})
	}
	if err := lined(ctx, holder, queues); err != nil {
		return c, err
	}
	if err := read(2); err != nil {
		return c, err
	}
	end()
	waiting.Wait()

	if err := each(n, func(i int) error { return leases[i].Release() }); err != nil {
		return c, err
	}
	if err := read(3); err != nil {
		return c, err
	}
	return [5]float64{
		(readings[1].server - readings[0].server) / float64(n),
		(readings[2].server - readings[1].server) / float64(waiters),
		(readings[3].server - readings[0].server) / float64(n),
		(readings[1].process - readings[0].process) / float64(n),
		(readings[2].process - readings[1].process) / float64(waiters),
	}, nil
}

// ttlOfCost is long: nothing that is counted may end meanwhile.
const ttlOfCost = 2 * time.Minute

// lined waits until all waiters are in line.
func lined(ctx context.Context, c *interlock.Client, queues int) error {
	for end, i := time.Now().Add(5*time.Minute), 0; i < queues; {
		q, err := c.Queue(ctx, nameOf(i))
		switch {
		case err != nil:
			return err
		case len(q.Waiters) == perName:
			i++
		case time.Now().After(end):
			return fmt.Errorf("%d of %d wait for %s after five minutes", len(q.Waiters), perName, q.Name)
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// process is the memory of this process that is in use, stacks included.
func process() float64 {
	runtime.GC()
	runtime.GC() // what the first one has found to be free is counted until it is swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// each calls f(0) to f(n-1), some at a time, and returns one of their errors.
func each(n int, f func(i int) error) error {
	var next, errs = make(chan int), make(chan error, 1)
	var calls sync.WaitGroup
	for range 32 {
		calls.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	calls.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// sqliteFolder is the folder of a file.
type sqliteFolder string

func startSQLite(context.Context) (workload.Server, error) {
	path, err := os.MkdirTemp("", "bench-sqlite-")
	return sqliteFolder(path), err
}

func (d sqliteFolder) URL() string {
	return "sqlite:" + filepath.ToSlash(filepath.Join(string(d), "locks.db"))
}

func (d sqliteFolder) About() []string { return []string{"a file in " + string(d)} }

func (d sqliteFolder) Usage(context.Context) (workload.Usage, error) {
	no := math.NaN()
	return workload.Usage{Sent: no, Received: no, Commands: no, Scripts: no, Transactions: no}, nil
}

func (d sqliteFolder) Clear(context.Context) error { return nil }

func (d sqliteFolder) Close() error { return os.RemoveAll(string(d)) }

// Kept is what the file and those beside it take on the disk, but for the log of the last
// transactions, which does not grow with what is kept.
func (d sqliteFolder) Kept(context.Context) (float64, error) {
	all, err := kernel.OnDisk(string(d))
	if err != nil {
		return 0, err
	}
	files, err := filepath.Glob(filepath.Join(string(d), "locks.db-wal"))
	if err != nil || len(files) == 0 {
		return all, err
	}
	log, err := kernel.OnDisk(strings.Join(files, ""))
	return all - log, err
}
